//! Whose quotas of a concurrency limit a request uses.

use std::net::IpAddr;

use foundation::id::AccountId;
use foundation::network::{client_network, client_site};

/// An owner of a quota. Quotas per network, site and account stop one client from taking every permit.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Network(IpAddr),
    /// The /48 of an IPv6 client, which often has many networks.
    Site(IpAddr),
    Account(AccountId),
}

impl Owner {
    /// All owners of a request of this client.
    pub(crate) fn of(client: IpAddr, account: AccountId) -> impl Iterator<Item = Self> {
        let site = client_site(client).map(Self::Site);
        [Self::Network(client_network(client)), Self::Account(account)].into_iter().chain(site)
    }
}
