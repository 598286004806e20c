// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/strategies.h: where a step reads gradients that are partly summed.
#pragma once

#include <yoke/runtime/collective.h>

namespace yoke::detail {

// The ranks whose tensors are left to be added up, in order, after partial_sum.
std::vector<std::uint32_t> partial_terms(std::uint32_t size);
// The part of a reduction that the update of the parameters cannot do while it reads the gradients.
// Precondition: the strategy is kDirect.
LinkedCollective partial_sum(Collectives& group, std::string_view node, Collectives::Range range);

// The rest: the sum of the partial terms on the owner.
LinkedCollective final_sum(Collectives& group, std::string_view node, Collectives::Range range);

}  // namespace yoke::detail
