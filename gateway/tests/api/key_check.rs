//! A gateway whose keys do not match the stored data does not start, and names the wrong variable.

use testkit::{Builder, Cluster, ProcessKind};

use crate::support::{GOOD, World};

fn key(digit: &str) -> String {
    digit.repeat(64)
}

fn keys(card_key: &str, pepper: &str) -> Builder {
    Cluster::builder().env("GATEWAY_CARD_KEY", &key(card_key)).env("GATEWAY_PEPPER", &key(pepper))
}

async fn does_not_start(world: &mut World, variable: &str) {
    let refused = world.cluster.add(ProcessKind::Gateway).await.map(drop).expect_err("it does not start");
    assert!(format!("{refused:#}").contains("it exited (exit status: 1)"), "{refused:#}");
    let log = world.cluster.processes().last().expect("it was added").log();
    assert!(log.contains(&format!("environment variable {variable}:")) && log.contains("rotation.md"), "{log}");
    assert!(!log.contains("is listening") && !log.contains(&key("e")[..16]), "{log}");
    // Nor does it create keys, which nothing could use.
    for arguments in [["rotate-keys", "--username", "shop"], ["create", "--username", "other"]] {
        let refused = world.cluster.run_gateway(&[&["account"], &arguments[..]].concat()).await.expect_err("refused");
        assert!(format!("{refused:#}").contains(variable), "{refused:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_detected_at_start() {
    // An empty database accepts any keys; from then on they must match.
    let mut world = World::of(keys("a", "c").gateway(2), &[]).await;
    world.cluster.set_env("GATEWAY_CARD_KEY", &key("e"));
    does_not_start(&mut world, "GATEWAY_CARD_KEY").await;
    world.post("add_card.php", &world.charge(GOOD)).await.is("00");
    does_not_start(&mut world, "GATEWAY_CARD_KEY").await;
    // Next to the matching key, a key that has encrypted nothing yet is one being introduced.
    world.cluster.set_env("GATEWAY_OLD_CARD_KEYS", &key("a"));
    world.cluster.add(ProcessKind::Gateway).await.expect("a step of a rotation");
    world.cluster.run_gateway(&["reencrypt"]).await.expect("re-encrypted");
    world.cluster.set_env("GATEWAY_OLD_CARD_KEYS", "");
    world.cluster.add(ProcessKind::Gateway).await.expect("its last step");

    world.cluster.set_env("GATEWAY_PEPPER", &key("d"));
    does_not_start(&mut world, "GATEWAY_PEPPER").await;
    // If the keys are lost, starting over must be possible.
    world.cluster.set_env("KEYS_UNCHECKED", "true");
    world.cluster.add(ProcessKind::Gateway).await.expect("unchecked");
    world.cluster.run_gateway(&["account", "rotate-keys", "--username", "shop"]).await.expect("new keys");
    world.cluster.set_env("KEYS_UNCHECKED", "false");
    world.cluster.add(ProcessKind::Gateway).await.expect("it fits again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_pepper_id_is_recorded_when_the_key_is_used() {
    let mut world = World::of(keys("a", "c").gateway(1), &[]).await;
    world.execute("UPDATE gateway.accounts SET pepper_id = NULL").await;
    world.cluster.set_env("GATEWAY_PEPPER", &key("d"));
    let noted = "SELECT count(pepper_id) FROM gateway.accounts";
    // Without a recorded pepper id any pepper is accepted, and a wrong one records nothing.
    world.cluster.add(ProcessKind::Gateway).await.expect("not checkable yet");
    let wrong = format!("{}/apis/sale.php", world.cluster.gateway_url(1));
    let response: serde_json::Value = world.raw(&wrong, &world.charge(GOOD)).await.json().await.expect("JSON");
    assert_eq!((&response["response"]["code"], world.number(noted).await), (&"09".into(), 0));
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    assert_eq!(world.number(noted).await, 1);
    does_not_start(&mut world, "GATEWAY_PEPPER").await;
}
