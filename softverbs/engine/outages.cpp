#include <engine/outages.hpp>

#include <utility>

#include <engine/fault_plan.hpp>

namespace softverbs::engine {
namespace {

bool is_current(unsigned edition) { return edition == fault_plan::of_process().edition(); }

}  // namespace

outages::outages(timer_queue& timers, netdev_observers& observers, std::function<void()> thaw)
    : timers_(timers), observers_(observers), thaw_(std::move(thaw)) {}

void outages::begin(fault_rule::action what, std::optional<std::chrono::nanoseconds> duration,
                    unsigned edition) {
  if (!is_current(edition)) return;
  if (state_of(what).exchange(true)) return;
  if (what != fault_rule::action::freeze) observers_.tell(netdev_observer::change::down);
  // A plan that was replaced meanwhile does not end what it did not see.
  if (!is_current(edition)) {
    timers_.at(clock::now(), [this, what] { end(what); });
  } else if (duration) {
    timers_.at(clock::now() + *duration, [this, what, edition] {
      if (is_current(edition)) end(what);
    });
  }
}

void outages::end(fault_rule::action what) {
  if (!state_of(what).exchange(false)) return;
  if (what == fault_rule::action::freeze) {
    thaw_();
  } else {
    observers_.tell(netdev_observer::change::up);
  }
}

void outages::follow_plan() {
  end(fault_rule::action::freeze);
  end(fault_rule::action::port_down);
  auto& plan = fault_plan::of_process();
  const auto edition = plan.edition();
  for (const auto& each : plan.outages()) {
    timers_.at(each.begins, [this, each, edition] {
      if (!is_current(edition)) return;
      fault_plan::of_process().has_begun(each);
      begin(each.what, each.duration, edition);
    });
  }
}

}  // namespace softverbs::engine
