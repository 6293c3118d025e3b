#pragma once
/// The fields of a struct, listed once, for code that treats all fields alike: wire formats, columns.
///
///   struct Heartbeat {
///     std::string executor;
///     std::uint64_t epoch = 0;
///     EMPLACE_FIELDS(executor, epoch)
///   };
///   heartbeat.visit_fields([](const char* name, auto& field) { … });   // Visits fields in list order.

namespace emplace {

template <class T>
concept HasFields = requires(T& value) {
  value.visit_fields([](const char*, auto&) {});
};

}  // namespace emplace

// One call per name: visit("name", name);
#define EMPLACE_FIELDS_PARENS ()
#define EMPLACE_FIELDS_EXPAND(...) \
  EMPLACE_FIELDS_EXPAND3(EMPLACE_FIELDS_EXPAND3(EMPLACE_FIELDS_EXPAND3(__VA_ARGS__)))
#define EMPLACE_FIELDS_EXPAND3(...) \
  EMPLACE_FIELDS_EXPAND2(EMPLACE_FIELDS_EXPAND2(EMPLACE_FIELDS_EXPAND2(__VA_ARGS__)))
#define EMPLACE_FIELDS_EXPAND2(...) \
  EMPLACE_FIELDS_EXPAND1(EMPLACE_FIELDS_EXPAND1(EMPLACE_FIELDS_EXPAND1(__VA_ARGS__)))
#define EMPLACE_FIELDS_EXPAND1(...) __VA_ARGS__
#define EMPLACE_FIELDS_EACH(name, ...) \
  visit(#name, name);                  \
  __VA_OPT__(EMPLACE_FIELDS_AGAIN EMPLACE_FIELDS_PARENS(__VA_ARGS__))
#define EMPLACE_FIELDS_AGAIN() EMPLACE_FIELDS_EACH
// Defines visit_fields: `first`, then one visit per name.
#define EMPLACE_FIELDS_AFTER(first, ...)                          \
  template <class Visit>                                          \
  void visit_fields(Visit&& visit) {                              \
    first EMPLACE_FIELDS_EXPAND(EMPLACE_FIELDS_EACH(__VA_ARGS__)) \
  }                                                               \
  template <class Visit>                                          \
  void visit_fields(Visit&& visit) const {                        \
    first EMPLACE_FIELDS_EXPAND(EMPLACE_FIELDS_EACH(__VA_ARGS__)) \
  }
/// Defines visit_fields over the named fields, at most 27. The struct has no base.
#define EMPLACE_FIELDS(...) EMPLACE_FIELDS_AFTER(, __VA_ARGS__)
/// Defines visit_fields for a struct without fields.
#define EMPLACE_NO_FIELDS \
  template <class Visit>  \
  void visit_fields(Visit&&) const {}
/// Defines visit_fields for a struct derived from `base`: the fields of the base come first.
#define EMPLACE_FIELDS_BESIDE(base, ...) EMPLACE_FIELDS_AFTER(base::visit_fields(visit);, __VA_ARGS__)
