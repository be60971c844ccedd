//! What a client asks for by the name that it dials.

/// Where a gRPC client that speaks xDS itself (`xds:///cart.shop`) finds its routes.
///
/// See <https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md>.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiListener {
    /// As it is dialled, without the scheme: `cart.shop:80`.
    pub name: String,
    /// Name of its [`RouteTable`](super::RouteTable).
    pub routes: String,
}
