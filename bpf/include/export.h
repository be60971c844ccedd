/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Types that the agent needs and that no map mentions: a variable of each puts them into BTF, and so into the skeleton. */
#ifndef WEFT_EXPORT_H
#define WEFT_EXPORT_H

#include "abi.h"

const volatile struct closing_socket weft_export_closing_socket = {};
const volatile enum counter weft_export_counter = 0;
const volatile enum lb_policy weft_export_lb_policy = 0;
const volatile enum service_flags weft_export_service_flags = 0;
const volatile enum backend_flags weft_export_backend_flags = 0;
const volatile enum identity_number weft_export_identity_number = 0;
const volatile enum identity_flags weft_export_identity_flags = 0;
const volatile enum protocol_class weft_export_protocol_class = 0;
const volatile enum verdict weft_export_verdict = 0;
const volatile enum workload_flags weft_export_workload_flags = 0;
const volatile enum flow_state weft_export_flow_state = 0;
const volatile enum flow_flags weft_export_flow_flags = 0;
const volatile enum reason weft_export_reason = 0;
const volatile enum event_type weft_export_event_type = 0;
const volatile enum flow_proxy weft_export_flow_proxy = 0;
const volatile enum mtls_mode weft_export_mtls_mode = 0;
const volatile enum mtls_flags weft_export_mtls_flags = 0;
const volatile enum steering weft_export_steering = 0;
const volatile enum direction weft_export_direction = 0;
const volatile enum flow_path weft_export_flow_path = 0;
const volatile enum accel_pod_flags weft_export_accel_pod_flags = 0;
const volatile struct event weft_export_event = {};
const volatile struct sweep weft_export_sweep = {};
const volatile struct check weft_export_check = {};

#endif
