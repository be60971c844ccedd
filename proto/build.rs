//! Compiles Weft's own messages. `protox` is a protobuf compiler in Rust, so that building needs no `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "weft/workload/v1/workload.proto",
        "weft/status/v1/problem.proto",
        "weft/admin/v1/admin.proto",
    ];
    let descriptors = protox::compile(files, ["."])?;
    let mut prost = tonic_prost_build::Config::new();
    prost
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        // Equal messages have equal bytes.
        .btree_map(["."]);
    tonic_prost_build::configure()
        .type_attribute(".weft.admin", "#[derive(serde::Serialize)]")
        .type_attribute(".weft.admin", "#[serde(rename_all = \"camelCase\")]")
        .compile_fds_with_config(descriptors, prost)?;
    println!("cargo::rerun-if-changed=weft");
    Ok(())
}
