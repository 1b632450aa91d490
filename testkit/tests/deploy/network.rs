//! Which pods may connect where.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::read;
use super::yaml::{Entry, at, documents, inline, list};
use super::{KUBERNETES, MANIFESTS};

const COMPONENT: &str = "app.kubernetes.io/component";

fn policies() -> BTreeMap<String, Vec<Entry>> {
    let documents = documents(&read(&format!("{KUBERNETES}base/network.yaml")));
    let name = |document: &[Entry]| at(document, "metadata.name").next().expect("a name").to_owned();
    documents.into_iter().map(|document| (name(&document), document)).collect()
}

/// The pods that a policy is about; `*` is all.
fn pods(policy: &[Entry]) -> BTreeSet<String> {
    let one = at(policy, "spec.podSelector").flat_map(|selector| inline(selector, COMPONENT)).map(str::to_owned);
    let some = at(policy, "spec.podSelector.matchExpressions")
        .filter_map(|expression| expression.split_once("values: "))
        .flat_map(|(_, values)| list(values.trim_end_matches('}')));
    let pods: BTreeSet<_> = one.chain(some).collect();
    if pods.is_empty() { ["*".to_owned()].into() } else { pods }
}

/// Policy, pods, and the ports that these may connect to.
const EGRESS: [(&str, &[&str], &[&str]); 6] = [
    ("names", &["*"], &["53", "53"]),
    ("postgres", &["api", "ctl", "gateway", "gateway-migrate", "migrate", "scheduler", "worker"], &["5432"]),
    ("redis", &["api", "gateway", "scheduler", "worker"], &["6379"]),
    ("gateway", &["gateway"], &["465", "587"]),
    ("ctl", &["ctl"], &["8090"]),
    ("worker", &["worker"], &["8090"]),
];

#[test]
fn a_pod_connects_to_what_its_program_needs_and_to_nothing_else() {
    let policies = policies();
    assert_eq!(at(&policies["nothing"], "spec.podSelector").next(), Some("{}"), "of all pods");
    assert!(at(&policies["nothing"], "spec.policyTypes").eq(["[Ingress, Egress]"]), "nothing else is allowed");
    let with_egress =
        policies.iter().filter(|(_, policy)| policy.iter().any(|one| one.path.starts_with("spec.egress")));
    let expected: BTreeSet<_> = EGRESS.map(|(name, ..)| name).into();
    assert_eq!(with_egress.map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), expected);
    for (name, who, ports) in EGRESS {
        let policy = &policies[name];
        assert_eq!(pods(policy), who.iter().map(|pod| (*pod).to_owned()).collect(), "{name}");
        let allowed: Vec<_> = at(policy, "spec.egress.ports").flat_map(|ports| inline(ports, "port")).collect();
        assert_eq!(allowed, ports, "{name}");
        // Each rule says where to: a rule without `to` allows every address.
        let rules = at(policy, "spec.egress.ports").count();
        let destinations = policy.iter().filter(|one| one.path == "spec.egress.to" && one.value.is_empty()).count();
        let inline_destinations = at(policy, "spec.egress.to").filter(|to| to.starts_with('[')).count();
        assert_eq!(destinations + inline_destinations, rules, "{name}");
    }
}

#[test]
fn every_pod_is_known_to_the_policies_by_its_component() {
    let reaching_postgres = pods(&policies()["postgres"]);
    let components: BTreeSet<_> = MANIFESTS
        .iter()
        .flat_map(|file| documents(&read(&format!("{KUBERNETES}{file}"))))
        .filter(|document| at(document, "kind").any(|kind| ["Deployment", "Job", "Pod"].contains(&kind)))
        .flat_map(|document| {
            let labels = ["metadata.labels", "spec.template.metadata.labels"];
            labels.map(|path| at(&document, path).flat_map(|one| inline(one, COMPONENT)).map(str::to_owned).next())
        })
        .flatten()
        .collect();
    assert_eq!(components, reaching_postgres, "each of them asks Postgres");
}

#[test]
fn nobody_connects_to_the_metadata_of_a_cloud_or_to_the_internet_for_postgres_and_redis() {
    let policies = policies();
    for name in ["gateway", "worker"] {
        let text =
            policies[name].iter().map(|one| format!("{} {}", one.path, one.value)).collect::<Vec<_>>().join("\n");
        assert!(text.contains("169.254.0.0/16") && text.contains("168.63.129.16/32"), "{name}: {text}");
    }
    for name in ["postgres", "redis", "names"] {
        let blocks: Vec<_> = policies[name].iter().flat_map(|one| inline(&one.value, "cidr")).collect();
        assert!(!blocks.is_empty() && !blocks.iter().any(|block| block.ends_with("/0")), "{name}: {blocks:?}");
    }
}
