use serde_json::json;

use super::*;
use crate::translate::validate;

#[test]
fn takes_what_people_write() {
    for text in [
        "/users/[0-9]+",
        "^/v[12]/(?:items|orders)/[a-z]{1,64}$",
        r"/a/[^/]+/b\.html",
        "(?i)chrome/[0-9]{2,3}",
        r"\d{4}-\d{2}-\d{2}",
        "(a+)+b",
        "[[:alpha:]]+",
        r"(?P<name>\w*)",
    ] {
        assert_eq!(refusal(text), None, "{text}");
    }
}

#[test]
fn refuses_with_a_reason() {
    for (text, reason) in [
        ("(", "unclosed group"),
        ("a{1001}", "repeats 1001 times"),
        ("(a{1,100}){1,100}", "repeats 10000 times"),
        ("(((a{9}){9}){9}){9}", "repeats 6561 times"),
        (r"(\pL{10}){100}", "compiles to more than"),
        ("a**", "repeats a repetition"),
        ("(?x)a b", "flag"),
        ("(?-u)a", "flag"),
        (r"\u0061", "by a number"),
        (r"\x{100}", "by a number"),
        (r"[\x{100}-\x{101}]", "by a number"),
        (r"\p{Alphabetic}", "general categories"),
        (r"\p{sc=Greek}", "general categories"),
        (r"\p{Nonsense}", "general categories"),
        (r"\b{start}a", "assertion"),
        ("[a&&b]", "combines classes"),
        ("[[a-z]b]", "class in a class"),
        ("(?<a.b>c)", "names a group"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "backreferences"),
    ] {
        let told = refusal(text).unwrap_or_default();
        assert!(told.contains(reason), "{text}: {told:?}");
    }
    assert!(refusal("").is_some());
    assert!(refusal(&"a".repeat(MAX_PATTERN + 1)).is_some());
    assert!(refusal(&"(".repeat(MAX_PATTERN)).is_some());
}

/// An expression of the pieces below, of which not all are taken.
fn any(random: &mut fastrand::Rng, depth: u32) -> String {
    const LEAVES: [&str; 40] = [
        "a",
        "/",
        "xyz",
        ".",
        r"\.",
        r"\/",
        r"\-",
        "[a-z]",
        "[^/]",
        r"[\w.-]",
        "[[:alpha:]_]",
        r"\d",
        r"\W",
        r"\pL",
        r"\PN",
        r"\p{Lu}",
        r"[^\p{Nd}x]",
        r"\x41",
        r"\x{7f}",
        r"\xff",
        "^",
        "$",
        r"\A",
        r"\z",
        r"\b",
        r"\B",
        r"\t",
        r"\a",
        "é",
        "[é-ü]",
        "(?i)",
        "(?s-m)",
        "",
        "-",
        "]",
        "}",
        r"\ ",
        "&",
        "~",
        r"[a\]\\-]",
    ];
    if depth == 0 || random.u8(..4) == 0 {
        return LEAVES[random.usize(..LEAVES.len())].to_owned();
    }
    let inner = |random: &mut fastrand::Rng| any(random, depth - 1);
    let (one, other) = (inner(random), inner(random));
    let (few, many) = (random.u32(..12), 12 + random.u32(..90));
    match random.u8(..14) {
        0 => format!("({one})"),
        1 => format!("(?:{one})"),
        2 => format!("(?P<n{few}>{one})"),
        3 => format!("(?i:{one})"),
        4 => format!("{one}|{other}"),
        5 => format!("(?:{one})*"),
        6 => format!("(?:{one})+?"),
        7 => format!("{one}?"),
        8 => format!("(?:{one}){{{few},{many}}}"),
        9 => format!("(?:{one}){{{few},}}"),
        10 => format!("{one}{{{many}}}"),
        11 => format!("(?U:{one}*)"),
        _ => format!("{one}{other}"),
    }
}

#[test]
fn a_real_envoy_takes_what_is_taken() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let made: Vec<String> = (0..4000).map(|_| any(&mut random, 6)).collect();
    let total = made.len();
    let mut taken: Vec<String> = made.into_iter().filter(|t| refusal(t).is_none()).collect();
    assert!(taken.len() > 1000 && taken.len() < total, "{}", taken.len());
    for class in CLASSES {
        taken.push(format!(r"\p{{{class}}}"));
    }
    let routes: Vec<_> = taken
        .iter()
        .map(|text| json!({"match": {"safe_regex": {"regex": text}}, "direct_response": {"status": 200}}))
        .collect();
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let bootstrap = json!({
        "layered_runtime": {"layers": [{"name": "limits", "static_layer": {
            "re2.max_program_size.error_level": MAX_STEPS,
        }}]},
        "static_resources": {"listeners": [{
            "name": "routes",
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
            "filter_chains": [{"filters": [{"name": "http", "typed_config": {
                "@type": manager,
                "stat_prefix": "routes",
                "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
                "http_filters": [{"name": "router", "typed_config": {"@type": router}}],
            }}]}],
        }]},
    });
    if let Err(said) = validate("bootstrap.json", bootstrap.to_string().as_bytes()) {
        let reason = said.lines().last().unwrap_or_default();
        panic!("seed {seed}: {reason}");
    }
}
