//! Compiles Weft's own messages. `protox` is a protobuf compiler in Rust, so that building needs no `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "weft/workload/v1/workload.proto",
        "weft/policy/v1/policy.proto",
        "weft/status/v1/problem.proto",
        "weft/flow/v1/flow.proto",
        "weft/admin/v1/admin.proto",
        "istio/v1/auth/ca.proto",
    ];
    let descriptors = protox::compile(files, ["."])?;
    let mut prost = tonic_prost_build::Config::new();
    prost
        .extern_path(
            ".envoy.config.rbac.v3.RBAC",
            "::envoy_types::pb::envoy::config::rbac::v3::Rbac",
        )
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        // Equal messages have equal bytes.
        .btree_map(["."]);
    tonic_prost_build::configure()
        .type_attribute(".weft.admin", "#[derive(serde::Serialize)]")
        .type_attribute(".weft.admin", "#[serde(rename_all = \"camelCase\")]")
        .type_attribute(".weft.flow", "#[derive(serde::Serialize)]")
        .type_attribute(".weft.flow", "#[serde(rename_all = \"camelCase\")]")
        .field_attribute(
            ".weft.flow.v1.Flow.time_unix_nano",
            "#[serde(rename = \"time\", serialize_with = \"crate::time::serialize\")]",
        )
        .compile_fds_with_config(descriptors, prost)?;
    println!("cargo::rerun-if-changed=weft");
    println!("cargo::rerun-if-changed=envoy");
    println!("cargo::rerun-if-changed=istio");
    Ok(())
}
