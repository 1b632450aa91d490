//! Hosts at private addresses, and at loopback without permission.

use super::receiver::{OK, Receiver};
use super::*;
use crate::FailureKind;

#[tokio::test]
async fn a_name_with_private_addresses_is_refused_before_connecting() {
    let receiver = Receiver::responding(OK).await;
    let names = Names::resolving_to(&["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"]);
    let target = target(&format!("http://receiver.test:{}/", receiver.port), TEST);
    let failure = egress(LONG, &names).post(&target, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!(failure.message, "the host name does not resolve to a public address");
    assert_eq!((names.lookups(), receiver.connections()), (1, 0));
}

#[tokio::test]
async fn the_checked_addresses_are_those_connected_to() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.read().await;
        peer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
    })
    .await;
    // The private address is skipped.
    let names = Names::resolving_to(&["10.0.0.1", "127.0.0.1"]);
    let egress = egress(LONG, &names);
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
    assert_eq!((names.lookups(), receiver.connections()), (1, 1), "one lookup for the connection");
    receiver.ended(1).await;
    // DNS rebinding to a private address.
    names.set(&["10.0.0.1"]);
    let failure = post(&egress, receiver.port).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!((names.lookups(), receiver.connections()), (2, 1));
}

#[tokio::test]
async fn targets_without_loopback_permission_reuse_no_loopback_connection() {
    let receiver = Receiver::responding(OK).await;
    let egress = local_egress(LONG);
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
    let without = target(&format!("http://receiver.test:{}/hooks?a=1", receiver.port), TEST);
    let failure = egress.post(&without, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!((receiver.requests().len(), receiver.connections()), (1, 1));
}

#[tokio::test]
async fn permitted_loopback_is_reachable_by_name_and_by_address() {
    let receiver = Receiver::responding(OK).await;
    let egress = Egress::new(LONG, Clock::system());
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"] {
        let target = target(&format!("http://{host}:{}/", receiver.port), LOCAL);
        let response = egress.post(&target, HeaderMap::new(), Bytes::from_static(b"{}")).await;
        assert_eq!(response.unwrap_or_else(|failure| panic!("{host}: {failure:?}")).status, 200);
    }
}

#[tokio::test]
async fn literal_addresses_are_checked_again_when_connecting() {
    let receiver = Receiver::responding(OK).await;
    let loopback = target(&format!("http://127.0.0.1:{}/", receiver.port), LOCAL).without_loopback();
    let failure = local_egress(LONG).post(&loopback, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!(receiver.connections(), 0);
}
