//! Clients at their worst, against a real listener with little patience.

mod bodies;
mod crowds;

use std::sync::atomic::AtomicUsize;

use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::network::Network;

/// Longer than any limit here, and than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

fn hasty(connections: usize) -> Listening {
    Listening { head_timeout: SHORT, take_timeout: SHORT, ..Listening::public(connections, Proxies::default()) }
}

/// A server that is told to stop when this is dropped.
struct Served {
    address: SocketAddr,
    stop: Arc<Notify>,
    served: JoinHandle<()>,
}

#[expect(clippy::disallowed_methods, reason = "it ends with the test")]
async fn served(listening: Listening, router: Router) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, stop) = (listener.local_addr().expect("an address"), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let served = tokio::spawn(async move {
        serve(listener, router, listening, async move { stopped.notified().await }, Duration::ZERO).await;
    });
    Served { address, stop, served }
}

async fn answer_to(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut said = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("an end").ok();
    String::from_utf8_lossy(&said).into_owned()
}

async fn connect(served: &Served) -> TcpStream {
    TcpStream::connect(served.address).await.expect("a connection")
}

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn whoever_does_not_take_its_answer_is_cut_off() {
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answers);
    // Far more than all buffers between the two.
    let big = Router::new().route(
        "/",
        get(async move || {
            counted.fetch_add(1, Ordering::Relaxed);
            vec![b'x'; 64 * 1024 * 1024]
        }),
    );
    let served = served(hasty(1), big).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(served.address).await.expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.expect("written");
    // Its place is free again, though it never read a byte: another is answered on the only one there is.
    let mut other = connect(&served).await;
    other.write_all(CLOSE.as_bytes()).await.expect("written");
    let mut first = [0; 12];
    timeout(PATIENCE, other.read_exact(&mut first)).await.expect("in time").expect("an answer");
    assert_eq!((&first, answers.load(Ordering::Relaxed)), (b"HTTP/1.1 200", 2));
    let mut said = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("an end").ok();
    assert!(said.len() < 64 * 1024 * 1024, "it got all of it");
}

#[tokio::test]
async fn whoever_takes_its_answer_slowly_gets_all_of_it() {
    const SIZE: usize = 8 * 1024 * 1024;
    let big = Router::new().route("/", get(async || vec![b'x'; SIZE]));
    let listening = Listening { take_timeout: PATIENCE, ..hasty(1) };
    let served = served(listening, big).await;
    let mut stream = connect(&served).await;
    stream.write_all(CLOSE.as_bytes()).await.expect("written");
    let (mut taken, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match timeout(PATIENCE, stream.read(&mut buffer)).await.expect("in time").expect("bytes") {
            0 => break,
            read => taken += read,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(taken > SIZE, "{taken}");
}

#[tokio::test]
async fn no_more_are_let_in_than_there_is_room_for() {
    let served = served(hasty(2), Router::new().route("/", get(async || "ok"))).await;
    // Two that say nothing have the places; a third waits, and is served when their time is over.
    let (mut first, second) = (connect(&served).await, connect(&served).await);
    let mut third = connect(&served).await;
    third.write_all(CLOSE.as_bytes()).await.expect("written");
    let mut said = [0; 1];
    let soon = timeout(SHORT / 3, third.read(&mut said)).await;
    assert!(soon.is_err(), "there was no place");
    assert!(answer_to(&mut third, "").await.starts_with("HTTP/1.1 200"));
    assert_eq!(answer_to(&mut first, "").await, "", "it was cut off without a word");
    drop(second);
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let served = served(hasty(4), Router::new().route("/", get(async || "ok"))).await;
    for begun in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: here\r\nX-Slow: "] {
        let said = answer_to(&mut connect(&served).await, begun).await;
        assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
    }
}

#[tokio::test]
async fn a_head_has_a_size() {
    let listening = Listening { head_timeout: PATIENCE, ..hasty(4) };
    let served = served(listening, Router::new().route("/", post(async || "ok").get(async || "ok"))).await;
    let head = |headers: &str| format!("GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{headers}\r\n");
    let many = |count: usize| (0..count).map(|i| format!("X-{i}: 1\r\n")).collect::<String>();
    let long = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    for (headers, status) in [(many(90), "200"), (many(101), "431"), (long(12 * 1024), "200"), (long(MAX_HEAD), "431")]
    {
        let said = answer_to(&mut connect(&served).await, &head(&headers)).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{} bytes: {said}", headers.len());
    }
}

#[tokio::test]
async fn whom_a_trusted_proxy_names_is_who_asks() {
    let who = Router::new().route("/", get(async |ConnectInfo(from): ConnectInfo<SocketAddr>| from.ip().to_string()));
    let asked = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nX-Forwarded-For: 198.51.100.9\r\n\
                 X-Forwarded-For: 192.0.2.7\r\n\r\n";
    for (trusted, seen) in [(Some("127.0.0.0/8"), "192.0.2.7"), (None, "127.0.0.1"), (Some("10.0.0.0/8"), "127.0.0.1")]
    {
        let networks = trusted.map(|text| Network::parse(text).expect("a network"));
        let listening = Listening { proxies: Proxies::new(networks.into_iter().collect()), ..hasty(4) };
        let served = served(listening, who.clone()).await;
        assert!(
            answer_to(&mut connect(&served).await, asked).await.ends_with(&format!("\r\n\r\n{seen}")),
            "{trusted:?}"
        );
    }
}

#[tokio::test]
async fn a_stop_answers_what_is_in_flight() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        get(async move || {
            begun.notify_one();
            go_on.notified().await;
            "late"
        })
    };
    // Even the last place that there is.
    let served = served(Listening { head_timeout: PATIENCE, ..hasty(1) }, Router::new().route("/", slow)).await;
    let mut stream = connect(&served).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.expect("written");
    begun.notified().await;
    served.stop.notify_one();
    go_on.notify_one();
    assert!(answer_to(&mut stream, "").await.ends_with("late"));
    timeout(PATIENCE, served.served).await.expect("it ends").expect("well");
}

#[test]
fn the_limit_of_open_files_is_read() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max processes             127265               127265               processes \n\
                  Max open files            1024                 1048576              files     \n";
    assert_eq!(open_files(limits), Some(1024));
    assert_eq!(open_files(&limits.replace("1024  ", "unlimited")), None);
    assert_eq!(open_files(""), None);
    assert!((OTHER_FILES..=MANY).contains(&Listening::default_connections()));
}
