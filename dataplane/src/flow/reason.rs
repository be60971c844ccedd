//! Why something was let through, refused or ended: `enum reason` of bpf/include/abi/event.h, in words.

use std::fmt;

use crate::bpf::types;

/// A value of `enum reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Reason(u8);

/// A reason's word for programs and its clause for people, which goes on after "because".
struct Text {
    reason: types::reason,
    word: &'static str,
    clause: &'static str,
}

macro_rules! texts {
    ($($name:ident, $word:literal, $clause:literal;)+) => {
        const TEXTS: &[Text] = &[$(Text {
            reason: types::reason::$name,
            word: $word,
            clause: $clause,
        }),+];

        impl Reason {
            $(
                #[doc = $clause]
                pub const $name: Self = Self(types::reason::$name.0 as u8);
            )+
        }
    };
}

texts! {
    REASON_NONE, "none", "no reason was given";
    REASON_DEFAULT, "default", "no policy selects it, and the node's --default-policy decides";
    REASON_POLICY, "policy", "a rule of a policy says so";
    REASON_ISOLATED, "isolated", "policies select it and none of their rules matches";
    REASON_HOST, "host", "a node may always talk to its own pods, and they to it";
    REASON_LAYER7, "layer7", "a policy asks for something that only a proxy can see";
    REASON_RELATED, "related", "it is an ICMP error about a connection that was let through";
    REASON_PROXY, "proxy", "it goes to the node's Envoy, whose own connection is judged instead";
    REASON_NOT_READY, "not-ready", "the pod's policy is not compiled yet";
    REASON_SPOOFED, "spoofed", "the source address is not the pod's own";
    REASON_MALFORMED, "malformed", "the packet is cut off, or its lengths contradict each other";
    REASON_FRAGMENT, "fragment", "the first fragment of the packet was not seen";
    REASON_TCP_FLAGS, "tcp-flags", "no TCP sends these flags together";
    REASON_TCP_HANDSHAKE, "tcp-handshake", "it is not the next step of the handshake";
    REASON_UNRELATED, "unrelated", "it is an ICMP error about no connection that is known";
    REASON_POLICY_CHANGING, "policy-changing", "the policy changed each time it was read";
    REASON_CONNTRACK_FULL, "conntrack-full", "the table of connections is full: raise it with --map-size ct=N";
    REASON_UNSUPPORTED, "unsupported", "the packet has more extension headers or VLAN tags than are looked at, or is neither IP nor ARP";
    REASON_MISDELIVERED, "misdelivered", "the destination address is not the pod's own";
    REASON_NO_ROOM, "no-room", "who the peer is found no room in the kernel's tables: weft status says which to raise";
    REASON_PLAIN_TEXT, "plain-text", "it is plain text from another node, and a PeerAuthentication requires mTLS";
    REASON_FIN, "fin", "both ends closed it";
    REASON_RST, "rst", "one end reset it";
    REASON_IDLE, "idle-timeout", "no packet came for too long";
    REASON_MAX_DURATION, "max-duration", "it was open for as long as its service allows";
    REASON_REVOKED, "revoked", "a policy changed and now refuses it";
    REASON_NO_REPLY, "no-reply", "it was never answered";
    REASON_BACKEND_GONE, "backend-gone", "its backend went away";
    REASON_NO_BACKEND, "no-backend", "the service has no backend that takes connections";
    REASON_CONNECTION_LIMIT, "connection-limit", "the service has as many connections as limits.maxConnections allows";
    REASON_RATE_LIMIT, "rate-limit", "the service gets more new connections than limits.connectionsPerSecond allows";
    REASON_CONNECT_TIMEOUT, "connect-timeout", "the backend did not answer within timeouts.connect";
    REASON_CONNECT_REFUSED, "connect-refused", "the backend refused it";
    REASON_SOURCE_RANGE, "source-range", "the client is in none of the service's loadBalancerSourceRanges";
    REASON_NO_PORT, "no-port", "the node has no address or port left from which to send it on";
    REASON_PROXY_DOWN, "proxy-down", "it needs layer 7, and the node's Envoy does not serve";
}

impl Reason {
    /// The kernel's number; one that this version does not know has a word, too.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    fn text(self) -> Option<&'static Text> {
        TEXTS.iter().find(|text| text.reason.0 == u32::from(self.0))
    }

    /// One word, for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.text().map_or("unknown", |text| text.word)
    }

    /// What goes on after "because", for people.
    #[must_use]
    pub fn clause(self) -> &'static str {
        self.text()
            .map_or("of something that this version has no words for", |text| {
                text.clause
            })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The header is the source: a reason added there has no words until it is added here.
    #[test]
    fn every_reason_of_the_header_has_words_of_its_own() {
        let header = include_str!("../../../bpf/include/abi/event.h");
        let numbers: BTreeSet<u32> = header
            .lines()
            .filter_map(|line| line.trim().strip_prefix("REASON_")?.split_once(" = "))
            .filter_map(|(_, rest)| rest.split([',', ' ']).next()?.parse().ok())
            .collect();
        assert!(numbers.len() > 20, "{numbers:?}");
        let known: BTreeSet<u32> = TEXTS.iter().map(|text| text.reason.0).collect();
        assert_eq!(known, numbers);
        let words: BTreeSet<&str> = TEXTS.iter().map(|text| text.word).collect();
        assert_eq!(words.len(), TEXTS.len());
    }

    #[test]
    fn words() {
        assert_eq!(Reason::REASON_IDLE.word(), "idle-timeout");
        assert_eq!(Reason::from_raw(255).word(), "unknown");
    }
}
