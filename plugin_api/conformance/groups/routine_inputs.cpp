// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/routine_inputs.cpp: launches after each way of changing an input, and routines of
// handles and instances that come and go.
#include <algorithm>
#include <cstring>
#include <deque>

#include "groups.h"
#include "program/run/launch.h"

namespace yoke::conformance {
namespace {

struct Sizes {
  std::uint64_t rows, depth, columns;
};

// y = x * w, or y = x + b * w for a row b of w; of f32 with small whole numbers, so that results are exact.
class Product {
 public:
  Product(Device& device, Random& random, const Sizes& sizes, bool is_sum = false)
      : device_(device), random_(random), sizes_(sizes), is_sum_(is_sum) {
    const std::string rows = std::to_string(sizes.rows);
    const std::string depth = std::to_string(sizes.depth);
    const std::string columns = std::to_string(sizes.columns);
    const std::string text_of =
        "yoke.program 1\nprogram inputs() {\n  arg x : f32[" + rows + ", " + depth + "] in\n  arg w : f32[" +
        depth + ", " + columns + "] in\n  arg y : f32[" + rows + ", " + columns +
        "] out\n  y[i, j] = " + (is_sum ? "x[i, 0] + 2 * w[0, j]" : "sum[k] x[i, k] * w[k, j]") + "\n}\n";
    require_supported(device, text_of, 1);
    code_ = compile(device, text_of);
    workspace_ = workspace_for(device, code_);
    x_ = drawn(sizes.rows * sizes.depth);
    w_ = drawn(sizes.depth * sizes.columns);
    renew();
  }

  Device& device() const { return device_; }
  const Buffer& w_buffer() const { return buffers_[1]; }
  std::vector<float>& w() { return w_; }
  std::uint64_t w_offset() const { return w_offset_; }
  void destroy_code() { code_.reset(); }
  bool has_code() const { return code_.get() != nullptr; }

  // Links again, to new buffers, which may have the addresses of the old ones.
  void renew() {
    routine_.reset();
    buffers_.clear();
    w_offset_ = YOKE_BUFFER_ALIGNMENT * random_.below(3);
    buffers_.emplace_back(device_, x_.size() * sizeof(float));
    buffers_.emplace_back(device_, w_offset_ + w_.size() * sizeof(float));
    buffers_.emplace_back(device_, sizes_.rows * sizes_.columns * sizeof(float));
    const yoke_binding bindings[] = {binding(buffers_[0]), binding(buffers_[1], w_offset_),
                                     binding(buffers_[2])};
    routine_ = link(device_.plugin(), code_, 0, bindings, binding(workspace_));
    buffers_[0].write(0, std::as_bytes(std::span(x_)));
    buffers_[1].write(w_offset_, std::as_bytes(std::span(w_)));
  }
  void new_x() {
    x_ = drawn(x_.size());
    buffers_[0].write(0, std::as_bytes(std::span(x_)));
  }
  void new_w() {
    w_ = drawn(w_.size());
    buffers_[1].write(w_offset_, std::as_bytes(std::span(w_)));
  }
  std::vector<float> drawn(std::uint64_t count) const {
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>(random_.between(-4, 4));
    }
    return values;
  }

  void check_launch(const std::string& after, const Stream* stream = nullptr) const {
    launch(device_.plugin(), routine_, {}, stream);
    std::vector<float> y(sizes_.rows * sizes_.columns);
    buffers_[2].read(0, std::as_writable_bytes(std::span(y)));
    for (std::uint64_t i = 0; i < sizes_.rows; ++i) {
      const std::vector<float> row = expected_row(i);
      for (std::uint64_t j = 0; j < sizes_.columns; ++j) {
        const float got = y[i * sizes_.columns + j];
        check(got == row[j], is_sum_ ? "a sum" : "a product", " of f32[", sizes_.rows, ", ", sizes_.depth,
              "] and f32[", sizes_.depth, ", ", sizes_.columns, "] launched after ", after, ": y[", i, ", ",
              j, "] is ", got, ", expected ", row[j]);
      }
    }
  }

 private:
  std::vector<float> expected_row(std::uint64_t i) const {
    const std::uint64_t depth = sizes_.depth;
    const std::uint64_t columns = sizes_.columns;
    std::vector<float> row(columns);
    for (std::uint64_t k = 0; k < depth && !is_sum_; ++k) {
      for (std::uint64_t j = 0; j < columns; ++j) {
        row[j] += x_[i * depth + k] * w_[k * columns + j];
      }
    }
    for (std::uint64_t j = 0; j < columns && is_sum_; ++j) {
      row[j] = x_[i * depth] + 2 * w_[j];
    }
    return row;
  }

  Device& device_;
  Random& random_;
  Sizes sizes_;
  bool is_sum_;
  Code code_;
  Buffer workspace_;
  std::vector<float> x_;
  std::vector<float> w_;
  std::uint64_t w_offset_ = 0;
  std::vector<Buffer> buffers_;  // x, w, y
  Routine routine_;
};

// Changes w in the ways that a host has. Each returns what it did.
class Changes {
 public:
  Changes(Kit& kit, Product& product, Random& random)
      : plugin_(kit.plugin()), product_(product), random_(random), stream_(stream_if_any(kit.device())) {
    const std::string count = std::to_string(product.w().size());
    const std::string copies = "yoke.program 1\nprogram copies() {\n  arg v : f32[" + count +
                               "] in\n  arg w : f32[" + count + "] out\n  w[i] = v[i]\n}\n";
    source_ = Buffer(kit.device(), product.w().size() * sizeof(float));
    try {
      require_supported(kit.device(), copies, 1);
      copies_ = compile(kit.device(), copies);
      workspace_ = workspace_for(kit.device(), copies_);
    } catch (const Unsupported&) {
    }
  }

  std::string change() {
    switch (random_.below(8)) {
      case 0:
        return send(0, product_.w().size());
      case 1:
        return fill();
      case 2:
        return copy();
      case 3:
        return from_routine();
      case 4:
        return by_address();
      case 5:
        product_.renew();
        return "a link to new buffers";
      case 6:
        product_.new_x();
        return "a from_host to x";
      default: {
        const std::uint64_t first = random_.below(product_.w().size());
        return send(first, 1 + random_.below(std::min<std::uint64_t>(product_.w().size() - first, 3)));
      }
    }
  }
  // A stream or the NULL stream; finish() waits for its work.
  const Stream* some_stream() { return stream_ && random_.chance(2) ? &*stream_ : nullptr; }

 private:
  std::uint64_t place(std::uint64_t first) const { return product_.w_offset() + first * sizeof(float); }
  void draw(std::uint64_t first, std::uint64_t count) {
    const std::vector<float> values = product_.drawn(count);
    std::copy(values.begin(), values.end(), product_.w().begin() + static_cast<std::ptrdiff_t>(first));
  }
  // Calls with the stream or NULL, and waits.
  template <class Call>
  void done(const Call& call, const std::string& what) {
    const Stream* stream = some_stream();
    expect_ok(call(stream == nullptr ? nullptr : stream->get()), what);
    if (stream != nullptr) {
      stream->synchronize();
    }
  }

  std::string send(std::uint64_t first, std::uint64_t count) {
    draw(first, count);
    std::string what = text("a from_host of ", count, " elements of w");
    done(
        [&](yoke_stream* stream) {
          return plugin_.from_host(stream, product_.w_buffer().get(), place(first), &product_.w()[first],
                                   count * sizeof(float), nullptr);
        },
        what);
    return what;
  }
  std::string fill() {
    if (!plugin_.has<&yoke_backend_api::fill>()) {
      return send(0, 1);
    }
    const std::uint64_t first = random_.below(product_.w().size());
    const std::uint64_t count = 1 + random_.below(product_.w().size() - first);
    const auto value = static_cast<float>(random_.between(-4, 4));
    std::fill_n(product_.w().begin() + static_cast<std::ptrdiff_t>(first), count, value);
    done(
        [&](yoke_stream* stream) {
          return plugin_.fill(stream, product_.w_buffer().get(), place(first), count * sizeof(float), &value,
                              sizeof value);
        },
        "a fill of w");
    return "a fill of a part of w";
  }
  std::string copy() {
    if (!plugin_.has<&yoke_backend_api::device_to_device>()) {
      return send(0, 1);
    }
    const std::uint64_t first = random_.below(product_.w().size());
    const std::uint64_t count = 1 + random_.below(product_.w().size() - first);
    draw(first, count);
    source_.write(0, std::as_bytes(std::span(product_.w())));
    done(
        [&](yoke_stream* stream) {
          return plugin_.device_to_device(stream, product_.w_buffer().get(), place(first), source_.get(),
                                          first * sizeof(float), count * sizeof(float));
        },
        "a device_to_device to w");
    return "a device_to_device to a part of w";
  }
  std::string from_routine() {
    if (copies_.get() == nullptr) {
      return send(0, 1);
    }
    draw(0, product_.w().size());
    source_.write(0, std::as_bytes(std::span(product_.w())));
    const yoke_binding bindings[] = {binding(source_), binding(product_.w_buffer(), product_.w_offset())};
    const Routine routine = link(plugin_, copies_, 0, bindings, binding(workspace_));
    launch(plugin_, routine, {}, some_stream());
    return "another routine wrote w";
  }
  std::string by_address() {
    const std::uint64_t address = product_.w_buffer().describe().host_address;
    if (address == 0) {
      return send(0, 1);
    }
    const std::uint64_t first = random_.below(product_.w().size());
    draw(first, 1);
    auto* const w = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    std::memcpy(w + place(first), &product_.w()[first], sizeof(float));
    return "the host wrote w by its address";
  }

  const Plugin& plugin_;
  Product& product_;
  Random& random_;
  std::optional<Stream> stream_;
  Buffer source_;
  Code copies_;
  Buffer workspace_;
};

constexpr Sizes kProducts[] = {{5, 7, 9}, {40, 130, 66}, {33, 300, 20}, {64, 64, 64}};

void changed_inputs(Kit& kit) {
  constexpr int kSteps = 40;
  Random random = kit.random();
  for (std::size_t shape = 0; shape < std::size(kProducts); ++shape) {
    for (const bool is_sum : {false, true}) {
      Product product(kit.device(), random, kProducts[shape], is_sum);
      Changes changes(kit, product, random);
      product.check_launch("the link");
      for (int step = 0; step < kSteps * kit.effort() && (!is_sum || shape < 2); ++step) {
        product.check_launch(changes.change(), changes.some_stream());
      }
    }
  }
}

// Handles of two instances of the plugin, with products whose codes are shared if a backend caches them by their text.
// Handles are closed and opened again while others work.
class Handles {
 public:
  Handles(Kit& kit, Random& random) : kit_(kit), random_(random), other_(kit.library()) {}

  void step() {
    const std::uint64_t draw = random_.below(10);
    if (handles_.empty() || (draw == 0 && handles_.size() < 4)) {
      return open();
    }
    Handle& handle = *handles_[random_.below(handles_.size())];
    if (draw == 1) {
      return close(handle);
    }
    if (handle.products.empty() || (draw < 4 && handle.products.size() < 6)) {
      handle.products.emplace_back(*handle.device, random_, kProducts[random_.below(std::size(kProducts))],
                                   random_.chance(3));
      last_ = "compiling its program";
    }
    Product& product = handle.products[random_.below(handle.products.size())];
    if (draw == 4) {
      product.destroy_code();
      last_ = "destroying a code";
    } else if (draw == 5 && product.has_code()) {
      product.renew();
      last_ = "linking again";
    }
    product.new_x();
    product.new_w();
    product.check_launch(last_);
  }
  void finish() {
    for (const auto& handle : handles_) {
      for (const Product& product : handle->products) {
        product.check_launch(last_);
      }
    }
    handles_.clear();
    other_.leave();
  }

 private:
  struct Handle {
    std::unique_ptr<Device> device;
    std::deque<Product> products;
  };

  void open() {
    Plugin& plugin = random_.chance(3) ? other_ : kit_.plugin();
    handles_.push_back(std::make_unique<Handle>());
    handles_.back()->device =
        std::make_unique<Device>(kit_, plugin, kit_.settings().device, kit_.device_options());
    last_ = &plugin == &other_ ? "opening a device of another instance" : "opening another handle";
  }
  void close(Handle& handle) {
    handle.products.clear();
    handle.device->close();
    std::erase_if(handles_, [&](const auto& one) { return one.get() == &handle; });
    last_ = "closing another handle";
  }

  Kit& kit_;
  Random& random_;
  Plugin other_;
  std::vector<std::unique_ptr<Handle>> handles_;
  std::string last_;
};

void handles_come_and_go(Kit& kit) {
  Random random = kit.random();
  kit.plugin().table<yoke_program_api>();
  {
    const Product probe(kit.device(), random,
                        kProducts[0]);  // throws Unsupported if the backend has no products
  }
  Handles handles(kit, random);
  for (int step = 0; step < 150 * kit.effort(); ++step) {
    handles.step();
  }
  handles.finish();
}

}  // namespace

std::vector<Test> routine_input_tests() {
  return {{"changed-inputs",
           "a launch uses the current contents of its inputs, whatever has changed them",
           {26},
           changed_inputs},
          {"handles-come-and-go",
           "routines are right while handles and instances with the same programs are opened and closed",
           {26, 53},
           handles_come_and_go}};
}

}  // namespace yoke::conformance
