//! Which of our kinds an API server has, and in which version.

use std::collections::HashMap;

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};

use crate::object::Kind;

/// What the server has of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// It can be asked for like this.
    As(ApiResource),
    /// Only in versions that Weft does not read.
    Otherwise(Vec<ApiResource>),
    /// Not at all.
    No,
}

/// The API groups of a server, with the versions of each, the preferred first.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<String, Vec<String>>);

impl Groups {
    /// Asks the server.
    pub(super) async fn ask(client: &Client) -> kube::Result<Self> {
        let list = client.list_api_groups().await?;
        let groups = list.groups.into_iter().map(|group| {
            let versions = group.versions.into_iter().map(|v| v.version).collect();
            (group.name, versions)
        });
        Ok(Self(groups.collect()))
    }

    /// What the server has of `kind`.
    pub(super) async fn find(&self, client: &Client, kind: Kind) -> kube::Result<Served> {
        for api_version in kind.api_versions() {
            let resource = resource(api_version, kind);
            // Every server has the kinds without a group.
            if resource.group.is_empty() || self.has(client, &resource).await? {
                return Ok(Served::As(resource));
            }
        }
        let mut others = Vec::new();
        for other in self.others(kind) {
            if self.has(client, &other).await? {
                others.push(other);
            }
        }
        Ok(if others.is_empty() {
            Served::No
        } else {
            Served::Otherwise(others)
        })
    }

    /// The kind in the versions of its group that are not ours.
    fn others(&self, kind: Kind) -> Vec<ApiResource> {
        let ours = kind.api_versions();
        let group = ours.first().and_then(|v| v.split_once('/'));
        let Some((group, _)) = group else {
            return Vec::new();
        };
        let versions = self.0.get(group).into_iter().flatten();
        versions
            .map(|version| format!("{group}/{version}"))
            .filter(|v| !ours.contains(&v.as_str()))
            .map(|v| resource(&v, kind))
            .collect()
    }

    async fn has(&self, client: &Client, resource: &ApiResource) -> kube::Result<bool> {
        let versions = self.0.get(&resource.group);
        if !versions.is_some_and(|v| v.contains(&resource.version)) {
            return Ok(false);
        }
        match client.list_api_group_resources(&resource.api_version).await {
            Ok(list) => Ok(list.resources.iter().any(|r| r.name == resource.plural)),
            // Gone between the two questions.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// How a kind is asked for in this version.
pub(crate) fn resource(api_version: &str, kind: Kind) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind.as_str()))
}
