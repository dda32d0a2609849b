//! Two equal routes to one subnet, of which Linux takes the first for both.

use std::collections::BTreeMap;

use super::{Said, arp_flux};
use crate::judge::NodeView;
use crate::judge::rules::{About, plain};
use crate::model::{Evidence, Fact, Finding, Netdev, Rule, Severity, SubnetRoute, Subnetwork};

pub(super) const ABOUT: About = About {
    rule: Rule::DuplicateRoute,
    means: "The routing table has two equal routes to one subnet through different interfaces, at least one of \
            them an RDMA NIC's. What is sent by address alone (TCP, rdma_cm without a source) leaves through \
            whichever comes first, which may differ from node to node and from boot to boot.",
    detected: "/proc/net/route and /proc/net/ipv6_route: same destination and metric, different interface. \
               Not told where a routing rule from the interface's address names a table of its own (ip rule, by \
               netlink), nor where arp-flux already names the subnet. Cannot be told where such routes exist \
               and the rules are unknown.",
    remedy: "Put the interfaces into subnets of their own, give the routes different metrics, or add a rule and a \
             table for each address (ip rule add from ADDRESS lookup TABLE).",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let routing = &node.facts.routing;
    let Some(routes) = routing.routes.value() else {
        return;
    };
    let netdevs = arp_flux::roce_netdevs(node);
    let in_flux = arp_flux::subnets(node);
    for (subnet, equal) in equal(routes) {
        let mine = |route: &&&SubnetRoute| netdevs.iter().any(|n| n.name == route.interface);
        if equal.iter().filter(mine).count() == 0 || in_flux.contains(&subnet) {
            continue;
        }
        match &routing.source_rules {
            Fact::Known { value, .. } => {
                if !equal.iter().all(|route| has_rule(route, &netdevs, value)) {
                    let from = routing.routes.source().unwrap_or_default();
                    said.findings.push(duplicate(node, subnet, &equal, from));
                }
            }
            Fact::Unknown { why } => said.cannot_tell(
                Rule::DuplicateRoute,
                node.subject(),
                format!(
                    "there are equal routes to {subnet}, and the routing rules are unknown: {why}"
                ),
            ),
        }
    }
}

/// More routes to subnets than a survey tells of; what a node says of itself is not to be trusted.
const MAX_ROUTES: usize = 1024;

/// The destinations that two or more interfaces lead to with the same metric.
fn equal(routes: &[SubnetRoute]) -> Vec<(Subnetwork, Vec<&SubnetRoute>)> {
    let mut groups: BTreeMap<(Subnetwork, u32), Vec<&SubnetRoute>> = BTreeMap::new();
    for route in routes.iter().take(MAX_ROUTES) {
        let group = groups.entry((route.to, route.metric)).or_default();
        if group.iter().all(|other| other.interface != route.interface) {
            group.push(route);
        }
    }
    let several = groups.into_iter().filter(|(_, group)| group.len() > 1);
    several.map(|((to, _), group)| (to, group)).collect()
}

/// Whether what has the interface's address as its source goes by a table of its own. Interfaces
/// without RDMA may go as they like.
fn has_rule(route: &SubnetRoute, netdevs: &[&Netdev], rules: &[Subnetwork]) -> bool {
    let Some(netdev) = netdevs.iter().find(|n| n.name == route.interface) else {
        return true;
    };
    let addresses = netdev.settings.addresses.value().into_iter().flatten();
    let mut of_route = addresses.filter(|address| address.network() == Some(route.to));
    of_route.any(|address| {
        rules.iter().take(MAX_ROUTES).any(|rule| {
            let from = Subnetwork {
                prefix_len: rule.prefix_len,
                ..*address
            };
            from.network().is_some() && from.network() == rule.network()
        })
    })
}

fn duplicate(
    node: &NodeView<'_>,
    subnet: Subnetwork,
    equal: &[&SubnetRoute],
    from: &str,
) -> Finding {
    const TOLD: usize = 8;
    let names: Vec<_> = equal.iter().map(|route| route.interface.as_str()).collect();
    let evidence = equal.iter().take(TOLD).map(|route| Evidence {
        saw: format!(
            "{subnet} through {}, metric {}",
            route.interface, route.metric
        ),
        from: from.to_owned(),
    });
    plain(
        Rule::DuplicateRoute,
        Severity::Warning,
        node.subject(),
        format!(
            "{} has equal routes to {subnet} through {}: what names no source leaves through one of them.",
            node.name,
            names.join(", ")
        ),
        evidence.collect(),
        ABOUT.remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::{NodeFacts, NodeName};

    fn route(to: &str, interface: &str, metric: u32) -> SubnetRoute {
        let (ip, len) = to.split_once('/').unwrap();
        SubnetRoute {
            to: Subnetwork {
                ip: ip.parse().unwrap(),
                prefix_len: len.parse().unwrap(),
            },
            interface: interface.into(),
            metric,
            gateway: None,
        }
    }

    /// Two NICs in one subnet that answer ARP for themselves only.
    fn node(routes: Vec<SubnetRoute>, rules: Fact<Vec<Subnetwork>>) -> NodeFacts {
        let apart = Fact::known(1, "arp_ignore");
        let mut facts = arp_flux::tests::node(["10.0.0.1/24", "10.0.0.2/24"], apart);
        facts.routing.routes = Fact::known(routes, "/proc/net/route");
        facts.routing.source_rules = rules;
        facts
    }

    fn told(facts: &NodeFacts) -> Said {
        let mut said = inspect(&NodeName::from("node01"), facts);
        said.findings.retain(|f| f.rule == Rule::DuplicateRoute);
        said.cannot_tell.retain(|c| c.rule == Rule::DuplicateRoute);
        said
    }

    fn both() -> Vec<SubnetRoute> {
        vec![
            route("10.0.0.0/24", "eth1", 0),
            route("10.0.0.0/24", "eth2", 0),
        ]
    }

    fn rules(sources: &[&str]) -> Fact<Vec<Subnetwork>> {
        let source = |text: &&str| route(text, "", 0).to;
        Fact::known(sources.iter().map(source).collect(), "ip rule")
    }

    #[test]
    fn two_equal_routes_are_warned_of() {
        let said = told(&node(both(), rules(&["10.0.0.1/32"])));
        let finding = &said.findings[0];
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "node01 has equal routes to 10.0.0.0/24 through eth1, eth2: what names no source leaves through \
             one of them."
        );
        assert_eq!(finding.evidence[0].from, "/proc/net/route");
    }

    #[test]
    fn rules_metrics_and_other_interfaces_make_routes_differ() {
        for rules in [
            rules(&["10.0.0.1/32", "10.0.0.2/32"]),
            rules(&["10.0.0.0/28"]),
        ] {
            assert_eq!(told(&node(both(), rules)), Said::default());
        }
        for routes in [
            vec![
                route("10.0.0.0/24", "eth1", 100),
                route("10.0.0.0/24", "eth2", 101),
            ],
            vec![
                route("10.0.0.0/24", "eth8", 0),
                route("10.0.0.0/24", "eth9", 0),
            ],
            vec![
                route("10.0.0.0/24", "eth1", 0),
                route("10.0.1.0/24", "eth2", 0),
            ],
        ] {
            assert_eq!(told(&node(routes, rules(&[]))), Said::default());
        }
    }

    #[test]
    fn unknown_rules_are_told_only_where_they_matter() {
        let unknown = || Fact::unknown("not the live system");
        let said = told(&node(both(), unknown()));
        assert!(said.findings.is_empty());
        assert!(
            said.cannot_tell[0]
                .why
                .contains("routing rules are unknown")
        );
        assert_eq!(told(&node(vec![], unknown())), Said::default());
    }

    #[test]
    fn what_arp_flux_names_is_not_told_twice() {
        let zero = Fact::known(0, "arp_ignore");
        let mut facts = arp_flux::tests::node(["10.0.0.1/24", "10.0.0.2/24"], zero);
        facts.routing.routes = Fact::known(both(), "/proc/net/route");
        facts.routing.source_rules = rules(&[]);
        assert_eq!(told(&facts), Said::default());
    }
}
