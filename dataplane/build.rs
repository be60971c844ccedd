//! Compiles `bpf/*.bpf.c`, links them into one object, and generates its skeleton.
//!
//! One object, so that all programs share one set of maps. `WEFT_CLANG` names another clang.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::Linker;
use sha2::{Digest, Sha256};

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let bpf = Path::new("../bpf");
    println!("cargo::rerun-if-changed=../bpf");
    println!("cargo::rerun-if-env-changed=WEFT_CLANG");
    let clang = find_clang()?;

    let object = out.join("weft.bpf.o");
    link(&compile_all(bpf, &out, &clang)?, &object)?;
    SkeletonBuilder::new()
        .obj(&object)
        .generate(out.join("weft.skel.rs"))?;

    // Opened without all that goes with programs: types of the kernel, relocations.
    link(&[out.join("maps.o")], &out.join("weft-maps.bpf.o"))?;

    // Programs that only tests load, over the same library headers and maps.
    let tests = out.join("weft-tests.bpf.o");
    link(&compile_all(&bpf.join("tests"), &out, &clang)?, &tests)?;
    println!("cargo::rustc-env=WEFT_ABI={}", abi_hash(bpf)?);
    Ok(())
}

fn find_clang() -> Result<OsString> {
    if let Some(clang) = env::var_os("WEFT_CLANG") {
        return Ok(clang);
    }
    let versions = (15..=25).rev().map(|v| format!("clang-{v}"));
    for name in versions.chain(["clang".to_owned()]) {
        if Command::new(&name).arg("--version").output().is_ok() {
            return Ok(name.into());
        }
    }
    bail!("no clang on PATH: install clang 15 or newer (make setup), or name one in WEFT_CLANG")
}

fn compile_all(folder: &Path, out: &Path, clang: &OsString) -> Result<Vec<PathBuf>> {
    let mut sources: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    sources
        .into_iter()
        .map(|source| {
            let name = source.file_stem().unwrap_or_default();
            let object = out.join(name).with_extension("o");
            SkeletonBuilder::new()
                .source(&source)
                .obj(&object)
                .clang(clang)
                .clang_args(clang_args())
                .build()
                .with_context(|| format!("{} does not compile", source.display()))?;
            Ok(object)
        })
        .collect()
}

fn clang_args() -> Vec<OsString> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    [
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror",
        "-mcpu=v3",
        "-I../bpf",
        // asm/types.h on Debian and Ubuntu.
        &format!("-I/usr/include/{arch}-linux-gnu"),
    ]
    .into_iter()
    .map(OsString::from)
    .collect()
}

fn link(objects: &[PathBuf], to: &Path) -> Result<()> {
    let mut linker = Linker::new(to)?;
    for object in objects {
        linker.add_file(object)?;
    }
    linker.link()?;
    Ok(())
}

/// Names the layout of all maps: pins of another layout are never taken over.
fn abi_hash(bpf: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let include = bpf.join("include");
    let mut headers = vec![include.join("abi.h"), include.join("maps.h")];
    for folder in ["abi", "maps"] {
        for entry in fs::read_dir(include.join(folder))? {
            headers.push(entry?.path());
        }
    }
    headers.sort();
    for header in headers {
        hash.update(fs::read(header)?);
    }
    Ok(hash
        .finalize()
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
