//! Names and addresses that lead where nobody may send us.

use super::receiver::{OK, Receiver};
use super::*;
use crate::egress::FailureKind;

#[tokio::test]
async fn a_name_that_leads_inwards_is_refused_before_any_connection() {
    let receiver = Receiver::answering(OK).await;
    let names = Names::all_are(&["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"]);
    let target = target(&format!("http://receiver.test:{}/", receiver.port), TEST);
    let failure = egress(LONG, &names).post(&target, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!(failure.message, "the host's name leads to no address that may be connected to");
    assert_eq!((names.asked(), receiver.connections()), (1, 0));
}

#[tokio::test]
async fn the_addresses_that_were_judged_are_those_connected_to() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.read().await;
        peer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
    })
    .await;
    // The private one is left out, and the other taken.
    let names = Names::all_are(&["10.0.0.1", "127.0.0.1"]);
    let egress = egress(LONG, &names);
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
    assert_eq!((names.asked(), receiver.connections()), (1, 1), "one look-up for the connection");
    receiver.ended(1).await;
    // The same name turns to where nobody may go.
    names.now_are(&["10.0.0.1"]);
    let failure = post(&egress, receiver.port).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!((names.asked(), receiver.connections()), (2, 1));
}

#[tokio::test]
async fn a_connection_by_the_permission_for_loopback_serves_nobody_without_it() {
    let receiver = Receiver::answering(OK).await;
    let egress = here(LONG);
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
    let without = target(&format!("http://receiver.test:{}/hooks?a=1", receiver.port), TEST);
    let failure = egress.post(&without, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!((receiver.requests().len(), receiver.connections()), (1, 1));
}

#[tokio::test]
async fn loopback_with_its_permission_is_reached_by_name_and_by_address() {
    let receiver = Receiver::answering(OK).await;
    let egress = Egress::new(LONG, Clock::system());
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"] {
        let target = target(&format!("http://{host}:{}/", receiver.port), LOCAL);
        let received = egress.post(&target, HeaderMap::new(), Bytes::from_static(b"{}")).await;
        assert_eq!(received.unwrap_or_else(|failure| panic!("{host}: {failure:?}")).status, 200);
    }
}

#[tokio::test]
async fn an_address_is_judged_again_where_it_is_connected_to() {
    let receiver = Receiver::answering(OK).await;
    let inwards = target(&format!("http://127.0.0.1:{}/", receiver.port), LOCAL).without_loopback();
    let failure = here(LONG).post(&inwards, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::AddressRefused);
    assert_eq!(receiver.connections(), 0);
}
