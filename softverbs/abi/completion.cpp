// Completion channels and queues.

#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return is_soft(context) ? c_function<verbs::create_comp_channel>(context)
                          : RDMAXX_REAL(ibv_create_comp_channel)(context);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return is_soft(channel) ? c_function<verbs::destroy_comp_channel>(channel)
                          : RDMAXX_REAL(ibv_destroy_comp_channel)(channel);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  return is_soft(context)
             ? c_function<verbs::create_cq>(context, entries, cq_context, channel, vector)
             : RDMAXX_REAL(ibv_create_cq)(context, entries, cq_context, channel, vector);
}

int ibv_resize_cq(ibv_cq* cq, int entries) {
  return is_soft(cq) ? c_function<verbs::resize_cq>(cq, entries)
                     : RDMAXX_REAL(ibv_resize_cq)(cq, entries);
}

int ibv_destroy_cq(ibv_cq* cq) {
  return is_soft(cq) ? c_function<verbs::destroy_cq>(cq) : RDMAXX_REAL(ibv_destroy_cq)(cq);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return is_soft(channel)
             ? c_function<verbs::get_cq_event, failure_as::minus_one>(channel, cq, cq_context)
             : RDMAXX_REAL(ibv_get_cq_event)(channel, cq, cq_context);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  is_soft(cq) ? c_function<verbs::ack_cq_events>(cq, count)
              : RDMAXX_REAL(ibv_ack_cq_events)(cq, count);
}
