//! A gateway that is killed or suspended during a request, and a blocked database.

use std::time::Duration;

use sqlx::Connection;
use testkit::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hold::Hold;
use crate::support::{Form, GOOD, SUSPENDED, World, wait_until};

/// How long the acquirer takes: half of it before it records the request, half before it responds.
const DELAY: &str = "GATEWAY_ACQUIRER_DELAY_MS";
/// Where the acquirer records a request.
const BOOKS: &str = "gateway.acquirer_books";

async fn status(world: &World, reference: &str) -> (String, String) {
    let records = world.report(&[("reference_id", reference)]).await;
    let record = records.iter().find(|record| record["parent_transaction_id"] == "").expect("it was entered");
    let text = |name: &str| record[name].as_str().expect(name).to_owned();
    (text("transaction_status"), text("decline_reason"))
}

/// Waits until the transaction is entered and not yet finished.
async fn wait_until_entered(world: &World, reference: &'static str) {
    wait_until("the transaction", async || {
        let rows = world.number("SELECT count(*) FROM gateway.transactions WHERE state = 'in_progress'").await;
        (rows > 0).then_some(())
    })
    .await;
    assert_eq!(status(world, reference).await, ("FAIL".into(), "in progress".into()));
}

async fn wait_until_booked(world: &World, count: i64) {
    wait_until("the acquirer's books", async || {
        (world.number("SELECT count(*) FROM gateway.acquirer_books").await == count).then_some(())
    })
    .await;
}

/// Makes recovery due now instead of in fifteen seconds.
async fn make_recovery_due(world: &World) {
    world.execute("UPDATE gateway.transactions SET recover_at = clock_timestamp() WHERE recover_at IS NOT NULL").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_the_acquirer_received_the_request_ends_as_failed() {
    // Longer than the test, so that the process is killed before its request is sent.
    let mut world = World::of(Cluster::builder().gateway(1).env(DELAY, "3600000"), &[]).await;
    let form = world.charge(GOOD).with("reference_id", "lost");
    let url = format!("{}/apis/sale.php", world.base());
    let (_, ()) = tokio::join!(world.send(world.http().post(&url), &form), async {
        wait_until_entered(&world, "lost").await;
        // Recovery waits for the test, however long the restart takes.
        world.execute("UPDATE gateway.transactions SET recover_at = 'infinity'").await;
        kill(&world)
    });
    world.cluster.gateway(0).restart().await.expect("restarted");
    assert_eq!(
        status(&world, "lost").await,
        ("FAIL".into(), "in progress".into()),
        "reported as in progress until it is resolved"
    );
    world.post("sale.php", &form).await.expect_error("26", "");
    make_recovery_due(&world).await;
    wait_until("the outcome", async || (status(&world, "lost").await.1 == "not processed").then_some(())).await;
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books WHERE answer = 'approved'").await, 0);
    world.post("sale.php", &form).await.expect_error("26", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_the_acquirer_received_the_request_keeps_its_result() {
    let mut world = World::new().await;
    let form = world.charge(GOOD).with("reference_id", "half");
    let url = format!("{}/apis/sale.php", world.base());
    // The acquirer has the request and is recording it.
    let hold = Hold::commits(&world, BOOKS).await;
    let (_, ()) = tokio::join!(world.send(world.http().post(&url), &form), async {
        hold.reached(&world).await;
        kill(&world)
    });
    hold.release().await;
    wait_until_booked(&world, 1).await;
    assert_eq!(world.number("SELECT count(*) FROM gateway.transactions WHERE state = 'in_progress'").await, 1);
    world.cluster.gateway(0).restart().await.expect("restarted");
    make_recovery_due(&world).await;
    wait_until("the outcome", async || (status(&world, "half").await.0 == "SUCCESS").then_some(())).await;
    // It is an ordinary sale.
    let records = world.report(&[("reference_id", "half")]).await;
    let of = world.keys().with("transaction_id", records[0]["transaction_id"].as_str().expect("an id"));
    world.post("void.php", &of).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_cannot_be_recovered_stops_no_other() {
    let world = World::new().await;
    for reference in ["broken", "whole"] {
        world.post("sale.php", &world.charge(GOOD).with("reference_id", reference)).await.is("00");
    }
    // The state after a kill before the outcome was written.
    let left =
        "UPDATE gateway.transactions SET state = 'in_progress', ended_at = NULL, captured = 0, settles_at = NULL,
                    recover_at = 'infinity'";
    assert_eq!(world.execute(left).await, 2);
    for statement in [
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused''; END'",
        "CREATE TRIGGER broken BEFORE UPDATE ON gateway.transactions FOR EACH ROW
         WHEN (NEW.reference_id = 'broken' AND NEW.state = 'approved') EXECUTE FUNCTION public.refuse()",
    ] {
        world.execute(statement).await;
    }
    make_recovery_due(&world).await;
    // Both are claimed together, and the older one first.
    wait_until("the other one", async || (status(&world, "whole").await.0 == "SUCCESS").then_some(())).await;
    assert_eq!(status(&world, "broken").await, ("FAIL".into(), "in progress".into()));
    let url = format!("{}/metrics", world.cluster.metrics_url(testkit::ProcessKind::Gateway, 0));
    let metrics = world.http().get(url).send().await.expect("a response").text().await.expect("text");
    let failures = metrics.lines().find_map(|line| line.strip_prefix("gateway_recovery_failures_total "));
    assert!(failures.is_some_and(|count| count != "0"), "{failures:?}");
    world.execute("DROP TRIGGER broken ON gateway.transactions").await;
    make_recovery_due(&world).await;
    wait_until("the rest", async || (status(&world, "broken").await.0 == "SUCCESS").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_captures_and_refunds_are_released_or_completed() {
    let mut world = World::new().await;
    let authorized =
        world.post("authorize.php", &world.charge(GOOD).with("amount", "40.00").with("reference_id", "a")).await;
    let captured = world.keys().with("transaction_id", authorized.id()).with("amount", "40.00");
    // The state after a kill between entry and acquirer.
    let left = "INSERT INTO gateway.transactions (id, account_id, parent_id, kind, state, source, amount, currency, brand,
                    masked, expiry, details, created_at, recover_at)
                SELECT gen_random_uuid(), account_id, id, 'capture', 'in_progress', source, amount, currency, brand, masked,
                    expiry, details, created_at, clock_timestamp() + interval '1 hour'
                FROM gateway.transactions WHERE kind = 'authorize'";
    world.execute(left).await;
    world.execute("UPDATE gateway.transactions SET changing = 'capture' WHERE kind = 'authorize'").await;
    world.post("capture.php", &captured).await.expect_error("15", "");
    world.post("void.php", &captured).await.expect_error("16", "");
    make_recovery_due(&world).await;
    wait_until("the capture's end", async || {
        let open = "SELECT count(*) FROM gateway.transactions WHERE recover_at IS NOT NULL OR changing IS NOT NULL";
        (world.number(open).await == 0).then_some(())
    })
    .await;
    assert_eq!(world.number("SELECT captured FROM gateway.transactions WHERE kind = 'authorize'").await, 0);
    world.post("capture.php", &captured).await.is("00");
    // This one was processed by the acquirer, and its outcome was not written.
    let left = "WITH left_behind AS (
                    INSERT INTO gateway.transactions (id, account_id, parent_id, kind, state, source, amount, currency, brand,
                        masked, expiry, details, created_at, recover_at)
                    SELECT gen_random_uuid(), account_id, id, 'refund', 'in_progress', source, 1500, currency, brand, masked,
                        expiry, details, created_at, clock_timestamp() + interval '1 hour'
                    FROM gateway.transactions WHERE kind = 'authorize' RETURNING id)
                INSERT INTO gateway.acquirer_books (reference, answer, auth_code) SELECT id, 'approved', '00' FROM left_behind";
    world.execute(left).await;
    world.execute("UPDATE gateway.transactions SET refunding = 1500 WHERE kind = 'authorize'").await;
    let refund = world.keys().with("transaction_id", authorized.id());
    world.post("refund.php", &refund.clone().with("amount", "25.01")).await.expect_error("14", "");
    world.cluster.gateway(0).restart().await.expect("restarted");
    make_recovery_due(&world).await;
    wait_until("the refund's end", async || {
        let refunded = "SELECT refunded - refunding FROM gateway.transactions WHERE kind = 'authorize'";
        (world.number(refunded).await == 1_500).then_some(())
    })
    .await;
    world.post("refund.php", &refund.with("amount", "25.00")).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_request_has_no_effect_when_it_resumes() {
    // Two processes: one is suspended between entry and acquirer, and the other recovers the transaction.
    let mut world = World::of(Cluster::builder().gateway(2), &[]).await;
    let form = world.charge(GOOD).with("reference_id", "slept");
    let url = format!("{}/apis/sale.php", world.cluster.gateway_url(1));
    let request = world.http().post(&url);
    let hold = Hold::commits(&world, "gateway.transactions").await;
    let response = {
        let sent = world.send(request, &form);
        let paused = async {
            hold.reached(&world).await;
            signal(world.cluster.gateway_pid(1), "-STOP");
            // The entry commits, but the suspended process does not receive the response to its commit.
            hold.release().await;
            wait_until_entered(&world, "slept").await;
            make_recovery_due(&world).await;
            wait_until("the outcome", async || (status(&world, "slept").await.1 == "not processed").then_some(()))
                .await;
            signal(world.cluster.gateway_pid(1), "-CONT");
        };
        tokio::join!(sent, paused).0.expect("a response")
    };
    let body: serde_json::Value = response.json().await.expect("JSON");
    assert_eq!(body["response"]["code"], "F", "{body}");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books WHERE answer = 'approved'").await, 0);
    world.cluster.gateway(1).terminate().await.expect("the process ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_clients_sale_is_completed_and_reported() {
    let world = World::new().await;
    let form = world.charge(GOOD).with("reference_id", "gone");
    let url = format!("{}/apis/sale.php", world.base());
    let hold = Hold::commits(&world, BOOKS).await;
    tokio::select! {
        response = world.send(world.http().post(&url), &form) => panic!("the sale is held: {response:?}"),
        () = hold.reached(&world) => {}
    }
    wait_until("the gateway to notice the disconnect", async || {
        let metrics = format!("{}/metrics", world.cluster.metrics_url(testkit::ProcessKind::Gateway, 0));
        let metrics = world.http().get(metrics).send().await.expect("a response").text().await.expect("text");
        metrics.contains("http_connections{listener=\"public\"} 0\n").then_some(())
    })
    .await;
    hold.release().await;
    wait_until("the outcome", async || (status(&world, "gone").await.0 == "SUCCESS").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_not_entered_in_time_are_refused_and_never_entered() {
    let world = World::new().await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    let form = world.charge(GOOD).with("reference_id", "late");
    let mut other = world.database().await;
    let mut held = other.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM gateway.usage FOR UPDATE").execute(&mut *held).await.expect("the row is held");
    world.post("sale.php", &form).await.expect_error("A1", "nothing was entered");
    held.rollback().await.expect("rolled back");
    assert!(world.report(&[("reference_id", "late")]).await.is_empty());
    world.post("sale.php", &form).await.is("00");
    // The same for a void.
    let sold = world.post("sale.php", &world.charge(GOOD)).await;
    let mut held = other.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM gateway.transactions FOR UPDATE").execute(&mut *held).await.expect("the rows are held");
    world
        .post("void.php", &world.keys().with("transaction_id", sold.id()))
        .await
        .expect_error("A2", "nothing was entered");
    held.rollback().await.expect("rolled back");
    world.post("void.php", &world.keys().with("transaction_id", sold.id())).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_received_while_suspended_is_refused() {
    let mut world = World::new().await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    let form = world.charge(GOOD).with("reference_id", "stale");
    let pid = world.cluster.gateway_pid(0);
    world.cluster.gateway(0).pause().expect("it pauses");
    // The request waits in the socket.
    let mut wire = Wire::connect(&world).await;
    wire.send(&form).await;
    // Longer than a heartbeat may be late.
    tokio::time::sleep(Duration::from_secs(3)).await;
    signal(pid, "-CONT");
    let response = wire.response().await;
    assert!(response.contains(r#""code":"A1""#) && response.contains(SUSPENDED), "{response}");
    assert!(world.report(&[("reference_id", "stale")]).await.is_empty());
    // After a second it serves again.
    wait_until("the gateway to accept requests again", async || {
        (world.post("sale.php", &form).await.code() == "00").then_some(())
    })
    .await;
    world.cluster.gateway(0).terminate().await.expect("the process ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_forms_time_out() {
    let world = World::new().await;
    let mut wire = Wire::connect(&world).await;
    let request = wire.request(&world.charge(GOOD).with("reference_id", "dripping"));
    wire.write(&request[..request.len() - 1]).await;
    let response = wire.rest().await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(world.report(&[("reference_id", "dripping")]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_pipelined_behind_a_slow_one_are_not_entered() {
    let world = World::of(Cluster::builder().gateway(1).env(DELAY, "2000"), &[]).await;
    let responses = wait_until("a gateway that is not suspended", async || {
        let mut wire = Wire::connect(&world).await;
        for reference in ["first", "second"] {
            wire.send(&world.charge(GOOD).with("reference_id", reference)).await;
        }
        let responses = wire.rest().await;
        (!responses.contains(SUSPENDED)).then_some(responses)
    })
    .await;
    assert_eq!(responses.matches("HTTP/1.1 200").count(), 1, "{responses}");
    assert_eq!(world.report(&[("reference_id", "first")]).await.len(), 1);
    assert!(world.report(&[("reference_id", "second")]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_any_time_leave_consistent_books() {
    const CLIENTS: usize = 6;
    const KILLS: usize = 4;
    let mut world = World::of(Cluster::builder().gateway(1).env(DELAY, "40"), &[]).await;
    let url = format!("{}/apis/sale.php", world.base());
    let mut results: Vec<(String, String)> = Vec::new();
    for round in 0..KILLS {
        let forms: Vec<Vec<_>> = (0..CLIENTS)
            .map(|client| {
                let reference = |n| format!("{round}-{client}-{n}");
                (0..12).map(|n| (reference(n), world.charge(GOOD).with("reference_id", &reference(n)))).collect()
            })
            .collect();
        let clients = forms.iter().map(async |forms| {
            let mut results = Vec::new();
            for (reference, form) in forms {
                // A response, or a broken connection, after which the outcome is unknown.
                let Some(body) = sell(&world, &url, form).await else { break };
                let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
                let code = body["response"]["code"].as_str().unwrap_or("UN").to_owned();
                results.push((reference.clone(), code));
            }
            results
        });
        let enough = "SELECT count(*) FROM gateway.transactions WHERE state = 'approved'";
        let killer = async {
            let target = 20 * (round as i64 + 1);
            wait_until("some sales", async || (world.number(enough).await >= target).then_some(())).await;
            kill(&world);
        };
        let (all, ()) = tokio::join!(futures_util::future::join_all(clients), killer);
        results.extend(all.into_iter().flatten());
        world.cluster.gateway(0).restart().await.expect("restarted");
    }
    wait_until("all transactions to be finished", async || {
        make_recovery_due(&world).await;
        let open = world.number("SELECT count(*) FROM gateway.transactions WHERE recover_at IS NOT NULL").await;
        (open == 0).then_some(())
    })
    .await;
    let disagreements = "SELECT count(*) FROM gateway.transactions AS t
                         FULL JOIN gateway.acquirer_books AS b ON b.reference = t.id
                         WHERE (t.state = 'approved') IS DISTINCT FROM (b.answer = 'approved')";
    assert_eq!(world.number(disagreements).await, 0);
    let repeated =
        "SELECT count(*) FROM (SELECT 1 FROM gateway.transactions GROUP BY reference_id HAVING count(*) > 1) AS r";
    assert_eq!(world.number(repeated).await, 0);
    assert!(results.len() >= 20 * KILLS / 2, "only {} responses", results.len());
    for (reference, code) in &results {
        if code == "00" {
            assert_eq!(status(&world, reference).await.0, "SUCCESS", "{reference}");
        }
    }
    // The counted volume of the month equals the charged amount.
    let difference = "SELECT (SELECT sum(amount) FROM gateway.transactions WHERE state = 'approved')::bigint
                           - (SELECT sum(amount) FROM gateway.volumes)::bigint";
    assert_eq!(world.number(difference).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_completes_requests_in_progress() {
    let mut world = World::new().await;
    let form = world.charge(GOOD).with("reference_id", "last");
    let (pid, address) = (world.cluster.gateway_pid(0), world.base().replace("http://", ""));
    let hold = Hold::commits(&world, BOOKS).await;
    let stop = async {
        hold.reached(&world).await;
        signal(pid, "-TERM");
        wait_until("a gateway that accepts no connections", async || TcpStream::connect(&address).await.err()).await;
        hold.release().await;
    };
    let (reply, ()) = tokio::join!(world.post("sale.php", &form), stop);
    reply.is("00");
    assert!(world.cluster.gateway(0).terminate().await.expect("the process ends").success());
}

/// The response to a sale, which is repeated after a stall of the gateway; `None` if the connection breaks.
async fn sell(world: &World, url: &str, form: &Form) -> Option<String> {
    loop {
        let response = world.send(world.http().post(url), form).await.ok()?;
        let body = response.text().await.unwrap_or_default();
        if !body.contains(SUSPENDED) {
            return Some(body);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A connection to the gateway whose bytes the test controls.
struct Wire {
    stream: TcpStream,
    address: String,
}

impl Wire {
    async fn connect(world: &World) -> Self {
        let address = world.base().replace("http://", "");
        Self { stream: TcpStream::connect(&address).await.expect("a connection"), address }
    }

    fn request(&self, form: &Form) -> String {
        let (body, host) = (form.encoded(), &self.address);
        format!("POST /apis/sale.php HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("sent");
    }

    async fn send(&mut self, form: &Form) {
        self.write(&self.request(form)).await;
    }

    /// One response with a body in JSON.
    async fn response(&mut self) -> String {
        let mut response = Vec::new();
        while !response.ends_with(b"}}") {
            assert_ne!(self.stream.read_buf(&mut response).await.expect("a response"), 0, "{response:?}");
        }
        String::from_utf8(response).expect("text")
    }

    /// Everything until the gateway closes the connection.
    async fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).await.expect("the end of the connection");
        rest
    }
}

fn kill(world: &World) {
    signal(world.cluster.gateway_pid(0), "-KILL");
}

fn signal(pid: u32, signal: &str) {
    let done = std::process::Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(done.success(), "{signal}");
}
