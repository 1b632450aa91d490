//! Receipts by e-mail: with the outcome and behind the answer, to the right addressee, once, and by SMTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use testkit::{Builder, Cluster};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, World, until};

const PENDING: &str = "SELECT count(*) FROM gateway.receipts WHERE due_at IS NOT NULL";

async fn none_pending(world: &World) {
    until("the last receipt", async || (world.number(PENDING).await == 0).then_some(())).await;
}

/// Lets what waits be tried now.
async fn hurry(world: &World) {
    world.execute("UPDATE gateway.receipts SET due_at = clock_timestamp() WHERE due_at IS NOT NULL").await;
}

/// The letters that have left, by transaction and addressee.
async fn letters(world: &World) -> BTreeMap<String, String> {
    none_pending(world).await;
    world.cluster.letters()
}

fn with_receipt(form: Form) -> Form {
    form.with("email_receipt", "Y")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_goes_to_whom_the_form_says_and_tells_what_was_done() {
    let options = ["--contact-email", "books@shop.example", "--name", "Sh\u{f6}p", "--convenience-fee-fixed", "0.50"];
    let world = World::of(Cluster::builder().gateway(1), &options).await;
    let form = world.charge(GOOD).with("amount", "20.20").with("reference_id", "order-9");
    let both = with_receipt(form).with("emailReceiptDBAEmail", "Y");
    let sold = world.post("sale.php", &both).await;
    let of = |id: &str| with_receipt(world.keys().with("transaction_id", id));
    let refunded = world.post("refund.php", &of(sold.id()).with("amount", "1.00")).await;
    let authorized = world.post("authorize.php", &world.charge(GOOD).with("emailReceiptDBAEmail", "Y")).await;
    let captured = world.post("capture.php", &of(authorized.id()).with("amount", "5.00")).await;
    let voided = world.post("void.php", &of(authorized.id())).await;
    let credited = world.post("unreference_refund.php", &with_receipt(world.charge(GOOD))).await;
    // Nobody wants one of these, or there is nothing to tell.
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &with_receipt(world.charge(DECLINED))).await.is("F");
    let letters = letters(&world).await;
    let expected = [
        format!("{}-cardholder.eml", sold.id()),
        format!("{}-merchant.eml", sold.id()),
        format!("{}-cardholder.eml", refunded.id()),
        format!("{}-merchant.eml", authorized.id()),
        format!("{}-cardholder.eml", captured.id()),
        format!("{}-cardholder.eml", voided.id()),
        format!("{}-cardholder.eml", credited.id()),
    ];
    let mut names: Vec<_> = letters.keys().cloned().collect();
    names.sort_unstable();
    let mut sorted = expected.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    let (ours, theirs) = (&letters[&expected[0]], &letters[&expected[1]]);
    for line in ["From: receipts@test.example", "To: jane@example.com"] {
        assert!(ours.contains(line), "{line} is not in {ours}");
    }
    assert!(theirs.contains("To: books@shop.example"), "{theirs}");
    for line in ["20.20 USD", "0.50 USD", "20.70 USD", "VISA ending in 4242", "order-9", sold.id()] {
        assert!(ours.contains(line) && theirs.contains(line), "{line} is not in {ours}{theirs}");
    }
    assert!(letters[&expected[2]].contains("Refund") && letters[&expected[5]].contains("Cancellation"));
    for letter in letters.values() {
        assert!(!letter.contains("XXXX") && !letter.contains("12/2034") && !letter.contains("424242"), "{letter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenged_sale_has_its_receipt_when_it_is_confirmed() {
    let world = World::new().await;
    let form = with_receipt(world.charge(CHALLENGED)).with("3ds_redirect_url", "https://shop.example/");
    let (refused, confirmed) = (form.clone().with("amount", "7.00"), form);
    for (form, decision, count) in [(refused, "refuse", 0), (confirmed, "confirm", 1)] {
        let said = world.post("sale.php", &form).await;
        let decided = world.raw(said.text("redirect_url"), &Form::empty().with("decision", decision)).await;
        assert_eq!(decided.status(), 303);
        assert_eq!(world.number("SELECT count(*) FROM gateway.receipts").await, count, "{decision}");
    }
    assert_eq!(letters(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_way_to_send_them_receipts_are_accepted_and_none_is_made() {
    let world = World::of(Cluster::builder().gateway(1).env("GATEWAY_MAIL_FOLDER", ""), &[]).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    assert_eq!(world.number("SELECT count(*) FROM gateway.receipts").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_without_a_contact_address_gets_none_and_an_impossible_address_is_given_up() {
    let world = World::new().await;
    world.post("sale.php", &world.charge(GOOD).with("emailReceiptDBAEmail", "Y")).await.is("00");
    let odd = with_receipt(world.charge(GOOD)).with("email", "jane,eve\u{2028}bcc:<x>@example.com");
    world.post("sale.php", &odd).await.refuses("06", "");
    let odd = with_receipt(world.charge(GOOD)).with("email", "jane,eve,bcc:<x>@example.com");
    world.post("sale.php", &odd).await.is("00");
    assert!(letters(&world).await.is_empty());
    let given_up = "SELECT count(*) FROM gateway.receipts WHERE given_up_at IS NOT NULL AND tries = 1";
    assert_eq!(world.number(given_up).await, 1);
    let set = ["account", "set", "--username", "shop", "--contact-email"];
    for bad in ["", "nobody", "a b@c.de"] {
        assert!(world.cluster.run_gateway(&[&set[..], &[bad]].concat()).await.is_err(), "{bad:?}");
    }
    let shown = world.cluster.run_gateway(&[&set[..], &["books@shop.example"]].concat()).await.expect("set");
    assert_eq!(shown["contact_email"], "books@shop.example");
    let shown = world.cluster.run_gateway(&[&set[..], &["none"]].concat()).await.expect("set");
    assert!(shown["contact_email"].is_null());
}

/// A mail server on the loopback address that answers each `RCPT` with the next of these, and then with 250. One that begins with
/// `MAIL` is its answer to that.
struct Server {
    url: String,
    received: Arc<Mutex<Vec<String>>>,
    /// The first word of everything that was said to it.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(replies: Vec<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("smtp://{}", listener.local_addr().expect("an address"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let replies = Arc::new(Mutex::new(replies.into_iter()));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let server = Self { url, received: received.clone(), heard: heard.clone() };
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream, replies.clone(), received.clone(), heard.clone()));
            }
        });
        server
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().expect("nobody panicked").clone()
    }
}

type Replies = Arc<Mutex<std::vec::IntoIter<&'static str>>>;

/// One connection, to its end.
async fn talk(
    stream: TcpStream,
    replies: Replies,
    received: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"220 test\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        heard.lock().expect("nobody panicked").push(verb.clone());
        let next = || {
            let mut replies = replies.lock().expect("nobody panicked");
            let of_mail = replies.as_slice().first().is_some_and(|reply| reply.starts_with("MAIL "));
            let reply = if of_mail == (verb == "MAIL") { replies.next() } else { None };
            reply.map_or("250 fine", |reply| reply.trim_start_matches("MAIL "))
        };
        let reply = match verb.as_str() {
            "RCPT" | "MAIL" => next(),
            "DATA" => {
                write.write_all(b"354 go on\r\n").await?;
                let mut letter = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    letter.push_str(&line);
                    letter.push('\n');
                }
                received.lock().expect("nobody panicked").push(letter);
                "250 taken"
            }
            "QUIT" => "221 bye",
            _ => "250 fine",
        };
        write.write_all(format!("{reply}\r\n").as_bytes()).await?;
    }
    Ok(())
}

fn with_server(url: &str) -> Builder {
    Cluster::builder().gateway(1).env("GATEWAY_MAIL_FOLDER", "").env("GATEWAY_SMTP_URL", url)
}

async fn by_smtp(url: &str) -> World {
    World::of(with_server(url), &[]).await
}

/// The first try has failed and was put off.
async fn put_off(world: &World) {
    until("the note of a try", async || {
        // The lease of a try is two minutes.
        let put_off = "SELECT count(*) FROM gateway.receipts
                       WHERE tries = 1 AND due_at < clock_timestamp() + interval '1 minute'";
        (world.number(put_off).await == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let server = Server::start(vec!["450 later", "451 later", "250 fine", "550 nobody here"]).await;
    let world = by_smtp(&server.url).await;
    let sold = world.post("sale.php", &with_receipt(world.charge(GOOD))).await;
    for tries in 1..=2 {
        until("a try", async || {
            let waits = "SELECT COALESCE(max(tries), 0)::bigint FROM gateway.receipts
                         WHERE due_at < clock_timestamp() + interval '1 hour' AND due_at > clock_timestamp()";
            (world.number(waits).await == tries).then_some(())
        })
        .await;
        until("its note", async || {
            // The lease of a try is two minutes, and the waits after the first two are others.
            let noted = "SELECT count(*) FROM gateway.receipts WHERE
                         abs(extract(epoch FROM due_at - clock_timestamp()) - CASE tries WHEN 1 THEN 60 ELSE 300 END) < 20";
            (world.number(noted).await == 1).then_some(())
        })
        .await;
        assert!(server.received().is_empty());
        hurry(&world).await;
    }
    none_pending(&world).await;
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert!(received[0].contains("To: jane@example.com") && received[0].contains(sold.id()), "{}", received[0]);
    assert!(received[0].contains(&format!("Message-ID: <{}-cardholder@test.example>", sold.id())), "{}", received[0]);
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    none_pending(&world).await;
    assert_eq!(server.received().len(), 1);
    assert_eq!(
        world.number("SELECT count(*) FROM gateway.receipts WHERE given_up_at IS NOT NULL AND tries = 1").await,
        1
    );
    let figures = format!("{}/metrics", world.cluster.metrics_url(testkit::Kind::Gateway, 0));
    let figures = world.http().get(figures).send().await.expect("an answer").text().await.expect("text");
    for (result, count) in [("sent", 1), ("put_off", 2), ("given_up", 1)] {
        let line = format!(r#"gateway_receipts_total{{result="{result}"}} {count}"#);
        assert!(figures.contains(&line), "no {line} in {figures}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_take_us_loses_no_receipt() {
    let server = Server::start(vec!["MAIL 530 5.7.0 Authentication required"]).await;
    let world = by_smtp(&server.url).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    put_off(&world).await;
    assert!(server.received().is_empty());
    // The operator mends it.
    hurry(&world).await;
    none_pending(&world).await;
    assert_eq!(server.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_of_a_cardholder_is_not_logged() {
    let address = "jane.doe@customer.example";
    let server = Server::start(vec![
        "450 4.2.1 <jane.doe@customer.example>: Recipient address is busy",
        "550 5.1.1 <jane.doe@customer.example>: Recipient address rejected",
    ])
    .await;
    let mut world = World::of(with_server(&server.url).env("RUST_LOG", "debug"), &[]).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD)).with("email", address)).await.is("00");
    put_off(&world).await;
    hurry(&world).await;
    none_pending(&world).await;
    let log = world.cluster.gateway(0).log();
    for said in ["a receipt was not sent", "the server answered 450 to RCPT", "a receipt is given up", "550 to RCPT"] {
        assert!(log.contains(said), "no {said} in {log}");
    }
    for person in [address, "customer.example", "Jane", "10001"] {
        assert!(!log.contains(person), "{person} is in {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_never_told_in_clear() {
    let server = Server::start(vec![]).await;
    let with_password = server.url.replace("smtp://", "smtp://shop:hunter2@");
    // It has no TLS to offer.
    let world = by_smtp(&format!("{with_password}?tls=required")).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    put_off(&world).await;
    let heard = server.heard.lock().expect("nobody panicked").clone();
    assert!(heard.contains(&"EHLO".to_owned()), "{heard:?}");
    assert!(heard.iter().all(|verb| ["EHLO", "QUIT", "RSET"].contains(&verb.as_str())), "{heard:?}");
    let builder = Cluster::builder().gateway(1).env("GATEWAY_MAIL_FOLDER", "").env("GATEWAY_SMTP_URL", &with_password);
    assert!(builder.start().await.is_err(), "it does not start");
    let both = Cluster::builder().gateway(1).env("GATEWAY_SMTP_URL", &server.url);
    assert!(both.start().await.is_err(), "a folder and a server");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_waits_for_a_server_and_no_kill_loses_a_letter() {
    // It takes connections and never says a word.
    let deaf = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let keys =
        |builder: Builder| builder.env("GATEWAY_CARD_KEY", &"a".repeat(64)).env("GATEWAY_PEPPER", &"b".repeat(64));
    let deaf_url = format!("smtp://{}", deaf.local_addr().expect("an address"));
    let mut world = World::of(keys(with_server(&deaf_url)), &[]).await;
    let sold = world.post("sale.php", &with_receipt(world.charge(GOOD))).await;
    let (_held, _) = deaf.accept().await.expect("it is tried");
    assert_eq!(world.number(PENDING).await, 1);
    world.cluster.gateway(0).kill9().expect("killed");
    // A later try, of a process that has another server.
    drop(deaf);
    let server = Server::start(vec![]).await;
    world.execute("UPDATE gateway.receipts SET tries = 7").await;
    hurry(&world).await;
    let again = world.beside(keys(with_server(&server.url))).await;
    none_pending(&world).await;
    assert_eq!(server.received().len(), 1);
    assert!(server.received()[0].contains(sold.id()));
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_was_tried_often_enough_is_given_up() {
    let server = Server::start(vec!["450 later"; 20]).await;
    let world = by_smtp(&server.url).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    until("it is given up", async || {
        hurry(&world).await;
        (world.number(PENDING).await == 0).then_some(())
    })
    .await;
    assert!(server.received().is_empty());
    assert_eq!(
        world.number("SELECT count(*) FROM gateway.receipts WHERE given_up_at IS NOT NULL AND tries = 8").await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_processes_one_sends_a_receipt() {
    let mut world = World::of(Cluster::builder().gateway(3), &[]).await;
    let forms: Vec<_> = (0..40).map(|_| with_receipt(world.charge(GOOD))).collect();
    let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
    for said in &sales {
        said.is("00");
    }
    assert_eq!(letters(&world).await.len(), 40);
    assert_eq!(world.number("SELECT sum(tries)::bigint FROM gateway.receipts").await, 40);
    for index in 0..3 {
        assert!(!world.cluster.gateway(index).log().contains("a receipt was not sent"));
    }
}
