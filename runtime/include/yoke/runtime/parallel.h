// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/parallel.h: one data-parallel training step after its gradients are computed:
// merging them, updating the parameters, and publishing these to all shards.
#pragma once

#include <yoke/runtime/collective.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke {

// The values of the symbols of one shard's programs.
class SymbolTable {
 public:
  void add(std::string name, std::int64_t value);       // Error kAlreadyExists: it was added before
  void set(std::string_view name, std::int64_t value);  // does nothing if `name` was not added
  // Precondition: `other` has the same names in the same order.
  void take_values(const SymbolTable& other) { values_ = other.values_; }
  std::size_t size() const { return values_.size(); }
  // Precondition: slot < size().
  std::int64_t value(std::size_t slot) const { return values_[slot]; }
  // Error kInvalidArgument: the table has no such name; the message lists the known names.
  std::size_t slot(std::string_view name, const std::string& program) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::int64_t> values_;
};

// A routine whose symbols are looked up by name once, when it is made.
class StepRoutine {
 public:
  StepRoutine() = default;
  StepRoutine(LinkedRoutine routine, const SymbolTable& table);
  // Queues a launch; allocates nothing. Precondition: `table` begins with the names of the constructor's
  // table, in the same order. Throws Error kInvalidArgument if it has fewer.
  void run(const SymbolTable& table);
  const LinkedRoutine& routine() const { return routine_; }

 private:
  LinkedRoutine routine_;
  std::vector<std::size_t> slots_;
  std::vector<std::int64_t> values_;
};

// Where the optimizer runs.
enum class Placement {
  // If StepOptions::merge is kAuto, chosen with the strategy; see choose_merge in cost_model.h. Otherwise kSharded for
  // the strategies kDirect, kRing and kNative, and kOwner for the others. With keep_last_step on several devices,
  // kEverywhere, so that states need not be published.
  kAuto,
  kOwner,       // on the owner, which then sends the parameters to all shards
  kEverywhere,  // on each shard, after all shards have received the summed gradients
  // Shard k updates part k of the parameters. It alone has the optimizer state of that part. With kDirect, all
  // shards use the owner's parameters and state in place; else they gather the parts.
  kSharded
};
// "auto", "owner", "everywhere", "sharded"; "unknown" for another number.
const char* placement_name(Placement placement);
// Throws Error kInvalidArgument, which lists the names.
Placement placement_by_name(std::string_view name);

// Whether gradients are merged on streams of their own, while other gradients are computed.
enum class Overlap {
  // kOn, unless one of the shards is on a CPU: merging would then take cores from computing.
  kAuto,
  kOn,  // with a single shard, as kOff: there is nothing to merge
  kOff
};
// "auto", "on", "off"; "unknown" for another number.
const char* overlap_name(Overlap overlap);
// Throws Error kInvalidArgument, which lists the names.
Overlap overlap_by_name(std::string_view name);

struct StepParameter {
  std::string name;
  TensorSpec spec;
  // Running state, such as the statistics of a batch normalization: it has no optimizer states, and a step adds the
  // merged "gradient" to it, whatever the optimizer.
  bool is_running_state = false;
  std::uint32_t group = 0;  // parameters of one group are updated by one program
};

// A program, and the names in a context of the tensors that its arguments stand for, where they differ.
struct StepProgram {
  std::string text;
  std::string entry;
  std::map<std::string, std::string> rename = {};
};

struct StepOptions {
  MergeStrategy merge = MergeStrategy::kAuto;
  Placement placement = Placement::kAuto;
  // How gradients reach the member that adds them up; not used by kDirect.
  MergeUse merge_use = MergeUse::kStreaming;
  // Gradients are merged in pieces, buckets, of about this many bytes; less than 256 counts as 256. Without
  // overlap, kDirect merges all at once. Only with kRing do the bits depend on this number.
  std::uint64_t bucket_byte_count = 4U << 20U;
  // Does not change the bits.
  Overlap overlap = Overlap::kAuto;
  // Each step reads one of two sets of parameters and states and writes the other, so that a step that fails can be
  // repeated. All shards then have whole states; with kOwner and kSharded, states are published too. kDirect with
  // kSharded uses the owner's memory only if all shards are on one device. Does not change the bits.
  bool keep_last_step = false;
  // Has no effect with a single shard, or on gradients of types other than f32.
  Wire wire = Wire::kFull;
  // Updates use a number over all gradients, such as their norm; see StepNumber. They then begin when all gradients are
  // merged. Does not change the bits of the gradients.
  bool has_number = false;
  // Each update gets one whole parameter, with the padding after it, which is zero. Not with kSharded.
  bool whole_parameters = false;
  // At least 1. If greater, which needs has_number, the "number" is a vector of this many f64: the tensor
  // StepPlan::kNumber of every shard that computes gradients. It keeps its values between steps. allocate() allocates
  // it, and the caller fills it. StepNumber::measure and combine may read its old values.
  std::uint32_t number_count = 1;
  // If its size is not 0, `shards` are those of this process, and all of them merge: gradients are summed over all
  // processes by kNative, and each shard updates its parameters, kEverywhere. The owner of publish() is rank 0.
  ProcessGroup processes = {};
};

// All parameters of one type and group in one flat tensor per shard; running states are in arenas of their own. Each
// parameter starts at a multiple of YOKE_BUFFER_ALIGNMENT.
struct Arena {
  std::int32_t type = 0;
  std::uint64_t element_count = 0;
  std::vector<std::size_t> members;    // positions of parameters
  std::vector<std::uint64_t> offsets;  // of the members, in elements
  bool is_running_state = false;       // whether the members are
  std::uint32_t group = 0;             // of the members
  // "parameters/f32", "parameters/running/f32", or "parameters/group1/f32": the arena's tensor in a context; `what` is
  // "parameters", "gradients" or a state's name.
  std::string name(std::string_view what) const;
  TensorSpec spec() const { return {type, {element_count}}; }
  std::uint64_t element_byte_count() const;
};

// The memory of one shard, in bytes.
struct StepMemory {
  std::uint64_t parameters = 0;
  std::uint64_t gradients = 0;
  std::uint64_t state = 0;
  std::uint64_t merge_buffer = 0;
  std::uint64_t wire = 0;    // rounded gradients and their rounding errors
  std::uint64_t number = 0;  // sums of a StepNumber
};

// A part of one parameter's optimizer state, on one shard.
struct StatePiece {
  std::uint32_t shard = 0;
  BufferView view;
  std::uint64_t offset = 0;  // in the state, in bytes
};

// What the program of an update is about: `count` elements of a type on one shard, and their group.
struct UpdateShape {
  std::uint32_t shard = 0;
  std::int32_t type = 0;
  std::uint64_t count = 0;
  std::uint32_t terms = 0;  // number of gradients that it adds up
  std::uint32_t group = 0;
};

// A number over all gradients that updates read. Each shard sums up what it will update in pieces of
// YOKE_BUFFER_ALIGNMENT bytes, and the owner combines all pieces in a fixed order. So the bits depend on the merged
// gradients only, not on the placement, the buckets or the overlap, and all shards use the same number. The host does
// not wait for it.
struct StepNumber {
  // Reads "gradient_0" to "gradient_<terms - 1>", as updates do, and writes "pieces": an f64 for each piece.
  std::function<StepProgram(const UpdateShape& shape)> measure;
  // Reads "pieces_<i>", those of whole arena arenas()[i], for each arena that is no running state; writes "number", an
  // f64 scalar, or the vector of StepOptions::number_count. Updates then read their argument "number".
  std::function<StepProgram()> combine;
};

// What one training step does with the gradients of a group of shards. Set it up in the order of the members
// below; a run then only queues work and allocates nothing. Not thread-safe.
//
// Each shard's context gets a tensor for each parameter, by its name; "gradient/<parameter>"; and, where the
// state is whole, "<state>/<parameter>". With keep_last_step, these parameters and states are set 0, and the names
// of set 1 are those of name_in().
class StepPlan {
 public:
  // The optimizer's program for elements of one group and type on one shard: it updates "value" and the states,
  // which have their own names, with the sum of "gradient_0" to "gradient_<terms - 1>". All are flat tensors. Its
  // other arguments are tensors of the shard's context. With keep_last_step, it only reads "value" and the states,
  // and writes "next_value" and "next_<state>". Running states need none.
  using UpdateOf = std::function<StepProgram(const UpdateShape& shape)>;

  static constexpr const char* kNumber =
      "step/number";  // the number over all gradients, in the contexts of shards

  StepPlan() = default;
  // Lays out the memory without allocating it; kAuto may measure links, with temporary memory. Only the first `merging`
  // shards ever compute gradients.
  // `parameters` are best in the order in which their gradients become final: buckets are cut in this order.
  // `states` are the names of the optimizer's states, each as large as the parameters.
  // Throws Error kInvalidArgument: `shards` or `parameters` is empty, `merging` is not 1 to the number of shards, a
  // parameter's type is unknown, a state is named "", "parameters" or "gradients", options.merge_use is kNone, an
  // option is not an enumerator, or options.wire does not work with the strategy; kFailedPrecondition: the strategy
  // does not work for these devices and types. `codes` may be shared; null creates a new cache.
  StepPlan(std::span<const Context> shards, std::uint32_t merging, std::vector<StepParameter> parameters,
           std::vector<std::string> states, const StepOptions& options, std::shared_ptr<CodeCache> codes);

  MergeStrategy strategy() const { return strategy_; }
  Placement placement() const { return placement_; }
  // Why the strategy was chosen: "given", or the estimated cost of each strategy, and the figures that were used.
  const std::string& merge_reason() const { return merge_reason_; }
  const std::vector<Arena>& arenas() const { return arenas_; }
  // Whether all shards use the owner's parameters.
  bool shares_parameters() const { return shares_parameters_; }
  bool overlaps() const { return overlaps_; }
  bool keeps_last_step() const { return set_count_ == 2; }
  // The set with the parameters that the next step reads; 0 without keep_last_step. The other set has the parameters
  // from before the latest step. step() and update() change it, and so does update_bucket() for a step's last bucket.
  std::uint32_t set() const { return set_; }
  // The name in a shard's context of a parameter, an arena or a state in a set: "w", or "set1/w".
  static std::string name_in(std::uint32_t set, std::string_view name);
  // The streams that merge, made by allocate(): one per merging shard, or none without overlap. They are part of
  // the shards: begin steps on them, wait for them, abort and renew them like the shards' own streams.
  std::span<const std::shared_ptr<Stream>> streams() const { return streams_; }
  std::size_t bucket_count() const { return buckets_.size(); }
  // The positions of the parameters of which the bucket has elements. Precondition: bucket < bucket_count().
  std::vector<std::size_t> parameters_of(std::size_t bucket) const;
  // The bucket's arena and its elements of it. Precondition: bucket < bucket_count().
  std::pair<std::size_t, Slice> range_of(std::size_t bucket) const {
    return {buckets_[bucket].arena, buckets_[bucket].range};
  }
  StepMemory memory(std::uint32_t shard) const;  // Error kOutOfRange: there is no such shard
  // Calls `visit` with the arguments of UpdateOf for each program that link() will need. Error kInvalidArgument:
  // `visit` is empty; likewise for each_measure() and each_merge().
  void each_update(const std::function<void(const UpdateShape& shape)>& visit) const;
  // Likewise for StepNumber::measure; none without StepOptions::has_number.
  void each_measure(const std::function<void(const UpdateShape& shape)>& visit) const;

  // Calls `visit` with each program that link() will need to add up gradients or to update running states, once per
  // routine.
  void each_merge(const std::function<void(std::uint32_t shard, const StepProgram& program)>& visit) const;

  // Errors of the functions below: kFailedPrecondition, the function before it in the order was not called, or the
  // plan is empty: default-constructed, or moved from;
  // kInvalidArgument, `update` is empty, there are not as many tables as shards, or `number` has functions other than
  // StepOptions::has_number says.
  //
  // Allocates zeros. Without gradients, a single shard's program may update parameters and states itself.
  void allocate();
  void allocate_gradients();
  // `tables` has the symbols of each shard.
  void link(const UpdateOf& update, std::span<const SymbolTable> tables, const StepNumber& number = {});

  // Queues a step: merges the gradients, updates the parameters, and publishes them. The gradients are
  // undefined afterwards: compute new ones on all merging shards, or clear them, before the next step.
  void step(std::span<const SymbolTable> tables);
  // The parts of step(), for gradients that are computed in parts. Call both once per bucket and step:
  // merge_bucket() when all launches that write the bucket's gradients are queued, then update_bucket() when all
  // launches that read its parameters are queued, too. With StepOptions::has_number, the last call queues all updates.
  // Error kOutOfRange: there is no such bucket.
  void merge_bucket(std::size_t bucket);
  void update_bucket(std::size_t bucket, std::span<const SymbolTable> tables);
  // The same in two calls. After the first, the owner has the summed gradients, until update(), which throws
  // Error kFailedPrecondition if it does not follow a merge().
  void merge();
  void update(std::span<const SymbolTable> tables);
  // Sets the gradients of the merging shards from `first` on to zero: they had no rows in this step. Does nothing
  // if there are no such shards.
  void clear_gradients(std::uint32_t first);
  // Sends the owner's parameters to all shards.
  void publish();
  // Where the next step reads a state of a parameter: all pieces on all shards. Those of each shard that has the whole
  // state, first the owner's if it has, are one piece. Call it after allocate(). Errors: kNotFound: there is no such
  // parameter or state.
  std::vector<StatePiece> state_pieces(std::string_view parameter, std::string_view state) const;

 private:
  struct Update {
    std::uint32_t shard = 0;
    StepRoutine routine;
  };
  // The work that computes new parameters from those of a set.
  struct Renewal {
    std::vector<Update> updates = {};        // after Bucket::merge
    std::vector<Update> after_collect = {};  // instead; empty: `updates`
    LinkedCollective publish = {};
    BufferView shared = {};  // the new parameters, if all shards use the owner's
  };
  // A range of an arena that is merged, updated and published as one.
  struct Bucket {
    std::size_t arena = 0;
    Slice range;
    LinkedCollective merge = {};
    LinkedCollective collect = {};                // the rest of the sum, for the owner
    LinkedCollective measure = {};                // after `merge`, with has_number
    LinkedCollective measure_after_collect = {};  // instead, if `after_collect` is not empty
    std::vector<Renewal> renew = {};              // per set that is read
  };
  // The part of a bucket that one shard updates.
  struct Part {
    std::uint32_t shard = 0;
    Slice range;
  };

  enum class Stage { kEmpty, kPlanned, kAllocated, kReady, kLinked };
  void require(Stage stage, const char* call) const;
  Bucket& bucket_at(std::size_t bucket, const char* call);
  void check_tables(std::span<const SymbolTable> tables) const;
  void check_number(const StepNumber& number) const;
  void check_processes(const StepOptions& options) const;
  void choose_merge(const StepOptions& options, bool needs_copies);
  bool packs(std::int32_t type) const { return wire_ == Wire::kBF16 && type == YOKE_TYPE_F32; }
  // The byte count of the largest piece of a bucket that a member adds at once.
  std::uint64_t largest_merge(std::size_t arena, std::uint64_t element_count) const;
  void lay_out(std::uint64_t bucket_byte_count);
  std::vector<Part> parts_of(const Bucket& bucket) const;
  std::vector<Part> measured_parts_of(const Bucket& bucket) const;
  bool measures_in_place(const Bucket& bucket, const Part& part) const;
  UpdateShape shape_of(const Bucket& bucket, const Part& part, std::size_t terms) const;
  // The shards whose gradients an update of that shard's part adds up after `merge`.
  std::vector<std::uint32_t> terms_of(std::uint32_t shard) const;
  std::string part_name(std::string_view state, std::size_t bucket) const;
  std::vector<StatePiece> state_pieces(std::size_t arena, const Slice& range, std::string_view state) const;
  std::span<const std::string> states_of(const Arena& arena) const {
    return arena.is_running_state ? std::span<const std::string>() : states_;
  }
  StepProgram running_program(const Arena& arena, std::uint64_t count, std::uint32_t terms) const;
  BufferView arena_part(std::uint32_t shard, const Arena& arena, std::string_view what,
                        const Slice& part) const;
  void make_arena(std::uint32_t shard, const Arena& arena, std::string_view what, const std::string& prefix);
  void open_streams();
  void link_merge(Bucket& bucket);
  LinkedCollective link_publish(const Bucket& bucket, std::uint32_t set);
  Renewal link_renewal(const UpdateOf& update, std::span<const SymbolTable> tables, std::size_t bucket,
                       std::uint32_t from);
  Update link_update(const UpdateOf& update, std::span<const SymbolTable> tables, std::size_t bucket,
                     std::uint32_t from, const Part& part, std::span<const std::uint32_t> terms);
  LinkedCollective link_measure(const StepNumber& number, const Bucket& bucket, bool after_collect);
  void link_number(const StepNumber& number);
  void allocate_number();
  void allocate_pieces();
  TensorSpec number_spec() const;
  void run_updates(const Renewal& renewal, std::vector<Update>& updates, std::span<const SymbolTable> tables);
  // The set that a step writes which reads set `from`.
  std::uint32_t set_after(std::uint32_t from) const { return set_count_ - 1 - from; }
  bool has_whole_state(std::uint32_t shard) const;

  Stage stage_ = Stage::kEmpty;
  std::vector<Context> shards_;
  std::vector<Context> workers_;  // per shard: where it merges, updates and publishes
  std::vector<std::shared_ptr<Stream>> streams_;
  std::uint32_t merging_ = 0;
  std::vector<StepParameter> parameters_;
  std::vector<std::string> states_;
  std::shared_ptr<CodeCache> codes_;
  MergeStrategy strategy_ = MergeStrategy::kOwner;
  Placement placement_ = Placement::kOwner;
  MergeUse merge_use_ = MergeUse::kStreaming;
  Wire wire_ = Wire::kFull;
  std::string merge_reason_;
  bool shares_parameters_ = false;
  bool overlaps_ = false;
  bool has_number_ = false;
  std::uint32_t number_count_ = 1;
  bool whole_parameters_ = false;
  ProcessGroup processes_;
  bool merged_ = false;  // whether merge() is the latest of merge(), update() and step()
  std::uint32_t set_count_ = 1;
  std::uint32_t set_ = 0;
  std::size_t updated_buckets_ = 0;  // of the current step
  std::vector<Arena> arenas_;
  std::vector<Bucket> buckets_;
  std::shared_ptr<Collectives> group_;     // of the merging shards
  std::shared_ptr<Collectives> everyone_;  // of all shards
  std::unique_ptr<Collectives> idle_;      // of the owner and the shards that never compute gradients
  LinkedCollective combine_;               // the number, and sends it to all shards that update
  std::vector<LinkedCollective> publish_;  // everything, per set
};

}  // namespace yoke
