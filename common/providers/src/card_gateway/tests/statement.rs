//! Reading the statement from the pages of the report.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_reads_every_page_oldest_first() {
    let fixture = GatewayFixture::new(&["--hourly-per-address", "1000000"]).await;
    let since = Clock::system().now();
    let stored = execute(
        &fixture,
        &request(&fixture, "card", Action::StoreCard { token: Secret::new(fixture.token_of(APPROVES).await) }),
    )
    .await;
    let ProviderResponse::Stored { provider_ref, .. } = stored else { panic!("stored") };
    let money = Money { minor: 100, currency: "USD".parse().expect("a currency") };
    let references: Vec<_> = (0..230).map(|n| format!("op_{n:03}")).collect();
    for reference in &references {
        let source = Source::Card(provider_ref.clone());
        let action = Action::Charge { source, money, capture: true };
        charged(execute(&fixture, &request(&fixture, reference, action)).await);
    }
    let read = fixture.adapter.statement(fixture.account, since, 1000).await.expect("read").lines;
    let read_references: Vec<_> = read.iter().map(|line| line.reference.clone()).collect();
    assert_eq!(read_references, references);
    let first = fixture.adapter.statement(fixture.account, since, 120).await.expect("read").lines;
    assert_eq!(first.len(), 120);
    assert_eq!(first[119].reference, "op_119");
    // Times have a resolution of one second, so records of the first second may be read again, but none is missing.
    let rest = fixture.adapter.statement(fixture.account, first[119].occurred_at, 1000).await.expect("read").lines;
    assert!(rest.iter().any(|line| line.reference == "op_120"));
    assert_eq!(rest.last().map(|line| line.reference.as_str()), Some("op_229"));
}

/// New transactions shift the others to later pages while the statement is read.
#[tokio::test(flavor = "multi_thread")]
async fn the_statement_is_complete_while_the_report_grows() {
    let fixture = GatewayFixture::new(&["--hourly-per-address", "1000000", "--daily-transactions", "1000000"]).await;
    let since = Clock::system().now();
    let store = Action::StoreCard { token: Secret::new(fixture.token_of(APPROVES).await) };
    let stored = execute(&fixture, &request(&fixture, "card", store)).await;
    let ProviderResponse::Stored { provider_ref, .. } = stored else { panic!("stored") };
    let money = Money { minor: 100, currency: "USD".parse().expect("a currency") };
    let charge = async |n: usize| {
        let action = Action::Charge { source: Source::Card(provider_ref.clone()), money, capture: true };
        charged(execute(&fixture, &request(&fixture, &format!("op_{n:04}"), action)).await);
    };
    for n in 0..230 {
        charge(n).await;
    }
    // Charges are added while it is read, but not without end: a reader that never catches up would read on forever.
    let more = async {
        for n in 230..330 {
            charge(n).await;
        }
    };
    let readings = async {
        loop {
            let lines = fixture.adapter.statement(fixture.account, since, 100_000).await.expect("read").lines;
            let mut references: Vec<_> = lines.iter().map(|line| line.reference.as_str()).collect();
            references.dedup();
            let expected: Vec<_> = (0..references.len()).map(|n| format!("op_{n:04}")).collect();
            assert_eq!(references, expected);
            assert!(references.len() >= 230);
            if references.len() == 330 {
                break;
            }
        }
    };
    tokio::join!(readings, more);
}
