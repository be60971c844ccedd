//! A resource, as it is kept until somebody asks.

use std::sync::Arc;

use weft_proto::convert;
use weft_proto::envoy::google::protobuf::Any;
use weft_proto::model::Resource;

/// What many ask for is encoded once. What is for one node is asked for once, and several times as long on the wire as here: a
/// listener says much of the same for each of the node's pods.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// For all.
    Encoded {
        type_url: &'static str,
        value: Arc<[u8]>,
    },
    /// For one.
    Plain(Arc<Resource>),
}

impl Content {
    pub(super) fn new(resource: Resource) -> Self {
        if resource.node().is_some() {
            return Self::Plain(Arc::new(resource));
        }
        Self::Encoded {
            type_url: resource.resource_type().type_url(),
            value: convert::encode(&resource).value.into(),
        }
    }

    /// As it travels.
    pub(super) fn any(&self) -> Any {
        match self {
            Self::Encoded { type_url, value } => Any {
                type_url: (*type_url).to_owned(),
                value: value.to_vec(),
            },
            Self::Plain(resource) => convert::encode(resource),
        }
    }
}
