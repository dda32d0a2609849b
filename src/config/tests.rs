//! What a cluster file may say, and what is said about one that is wrong.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::model::NodeName;

fn operator() -> Operator {
    Operator {
        user: Some("ada".into()),
        home: Some("/home/ada".into()),
    }
}

fn good(text: &str) -> Cluster {
    read(text, "cluster.toml", &operator()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn bad(text: &str) -> ConfigErrors {
    read(text, "cluster.toml", &operator()).expect_err("this was accepted")
}

/// The only problem of a file that has `nodes` and this besides, with line and column.
fn only(text: &str) -> String {
    let errors = bad(&format!("nodes = [\"n[1-3]\"]\n{text}"));
    assert_eq!(errors.problems.len(), 1, "{errors}");
    let problem = &errors.problems[0];
    let place = problem
        .place
        .map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
    let help = problem.help.as_deref().map(|help| format!(" ({help})"));
    format!("{place} {}{}", problem.message, help.unwrap_or_default())
}

#[test]
fn nodes_alone_are_a_cluster_with_every_default() {
    let cluster = good("nodes = [\"node[01-03]\"]");
    insta::assert_debug_snapshot!(cluster);
    let lists = ["node[01-02]".into(), "node03".into()];
    assert_eq!(from_host_lists(&lists, &operator()).unwrap(), cluster);
}

#[test]
fn everything_can_be_said() {
    insta::assert_debug_snapshot!(good(
        r#"
nodes = ["rack[1-2]n[01-02]", "login"]
exclude = ["rack1n02"]
[node.rack1n01]
address = "fd00::1"
port = 2201
user = "root"
[node.login]
user = "HPC\\ada"
[ssh]
user = "operator"
port = 2222
identity_files = ["~/.ssh/cluster", "/keys/other"]
agent = false
known_hosts = ["/etc/ssh/ssh_known_hosts"]
accept_new = true
connect_timeout = "1m 30s"
concurrency = 8
directory = "/scratch/operator"
command = ["srun", "-w", "{host}", "--comment={}"]
[rails]
by = "subnet"
subnets = ["10.1.0.0/16", "fd00:2::/64"]
[probe]
message_size = "1 MiB"
depth = 128
queue_pairs = 4
duration = "2.5s"
completion = "poll"
memory = "host"
[probe.tcp]
streams = 16
message_size = "256 KiB"
[probe.cost]
duration = "250ms"
sizes = ["8 MiB", "64", "64 B"]
latency_sizes = ["2 B"]
[sweep]
pattern = "full"
matchings = 4
directions = "one"
rails = "one by one"
fabric = true
max_load = 0.5
time_budget = "1h 30m"
groups.leaf2 = ["rack2n[01-02]", "rack3n01"]
groups.leaf1 = ["rack1n01"]
[expect]
line_rate = "400 Gb/s"
half_below = 0.6
degraded_below = 1
"#
    ));
}

#[test]
fn the_built_in_defaults_are_a_cluster_file_too() {
    let defaults = read::typed::<typed::TypedCluster>(DEFAULT).unwrap();
    assert_eq!(defaults.problems, []);
    let nodes = "nodes = [\"node[01-03]\"]\n";
    assert_eq!(good(&format!("{nodes}{DEFAULT}")), good(nodes));
}

/// Every key that default.toml only shows is one that exists: it is read with its comments open.
#[test]
fn what_the_defaults_show_in_comments_is_right() {
    let opened: String = DEFAULT
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(shown) if shown.contains(" = ") || shown.starts_with('[') => shown,
            _ => line,
        })
        // One of each pair that excludes the other.
        .filter(|line| !line.starts_with("carrier") && !line.starts_with("by ="))
        .filter(|line| !line.starts_with("subnets"))
        // Two of the three that exclude each other.
        .filter(|line| !line.starts_with("topology_conf") && !line.starts_with("ibnetdiscover"))
        .map(|line| format!("{line}\n"))
        .collect();
    let opened = opened.replace("[rails]", "[rails]\nby = \"netdev\"");
    assert!(opened.contains("\nline_rate = "), "{opened}");
    let cluster = good(&opened);
    assert_eq!(cluster.nodes.len(), 15);
    assert_eq!(cluster.nodes[0].address, "10.0.0.1");
    assert_eq!(cluster.sweep.time_budget_s, Some(1800));
    assert_eq!(cluster.settings(0).sweep.groups[0].nodes.len(), 7);
}

#[test]
fn every_file_in_configs_passes() {
    let mut files = 0;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap() != "default.toml" {
                let text = std::fs::read_to_string(&path).unwrap();
                let name = path.display().to_string();
                let kind = path.parent().unwrap().file_name().unwrap();
                let done = match kind.to_str() {
                    Some("scenarios") => read_scenario(&text, &name).map(drop),
                    Some("profiles") => read_profile(&text, &name).map(drop),
                    _ => read(&text, &name, &operator()).map(drop),
                };
                done.unwrap_or_else(|errors| panic!("{errors}"));
                files += 1;
            }
        }
    }
    assert!(files >= 3, "only {files} files were found");
}

#[test]
fn all_problems_are_reported_where_they_are() {
    let errors = bad(r#"nodes = ["node[01-03]", "node[02-", "n√de"]
exclude = ["node09"]

[node.node1]
port = 0

[ssh]
knwon_hosts = ["~/.ssh/known_hosts"]
connect_timeout = 30
identity_files = ["id_rsa"]

[rails]
by = "devise"

[probe]
depth = "deep"
duration = "5"
"#);
    insta::assert_snapshot!(errors);
}

#[test]
fn a_place_is_shown_in_the_file_and_in_the_list() {
    let errors = bad("nodes = [\"node[01-03\"]\n");
    insta::assert_snapshot!(errors);
    let errors = from_host_lists(&["n1".into(), "n[2-1]".into()], &operator()).unwrap_err();
    insta::assert_snapshot!(errors);
}

#[test]
fn a_file_that_is_no_toml_says_where() {
    let errors = [
        "nodes = [\"n1\"\n[ssh]\n",
        "nodes = n1\n",
        "a = 1\na = 2\n",
        "nodes\n",
    ]
    .map(|text| bad(text).to_string());
    insta::assert_snapshot!(errors.join("\n\n"));
}

#[test]
fn bad_values_are_named() {
    let said: Vec<String> = [
        "exclude = [\"n[1-3]\"]",
        "exclude = [\"n[3-5]\"]",
        "[node.n4]",
        "[node.m1]\nport = 1",
        "[node.n1]\nport = 65536",
        "[node.n1]\naddress = \"-oProxyCommand=x\"",
        "[node.n1]\naddress = \"10.0.0.1:22\"",
        "[node.n1]\naddress = \"n2\"",
        "[node.n1]\nuser = \"root; reboot\"",
        "[node]\nn1 = 3",
        "[[node.n1]]\nport = 3",
        "[[ssh]]\nport = 3",
        "[ssh]\nport = -1",
        "[ssh]\nport = \"22\"",
        "[ssh]\nuser = \"\"",
        "[ssh]\nuser = \"-x\"",
        "[ssh]\nkown_hosts = []",
        "[ssh]\nknown_hosts = []",
        "[ssh]\nknown_hosts = [\"known_hosts\"]",
        "[ssh]\nidentity_files = []\nagent = false",
        "[ssh]\nconnect_timeout = \"0s\"",
        "[ssh]\nconnect_timeout = \"30\"",
        "[ssh]\nconnect_timeout = \"11m\"",
        "[ssh]\nconcurrency = 0",
        "[ssh]\ndirectory = \"~/bin\"",
        "[ssh]\ndirectory = \"/a dir\"",
        "[ssh]\ncarrier = \"shs\"",
        "[ssh]\ncarrier = \"ssh\"\ncommand = [\"x\", \"{host}\"]",
        "[ssh]\ncommand = []",
        "[ssh]\ncommand = [\"ssh\"]",
        "[ssh]\ncommand = [\"{host}\"]",
        "[ssh]\ncommand = [\"kubectl\", \"exec\", \"{pod}\", \"{host}\"]",
        "[rails]",
        "[rails]\nby = \"device\"",
        "[rails]\nby = \"device\"\nnames = []",
        "[rails]\nby = \"device\"\nnames = [\"mlx5_0\", \"mlx5_0\"]",
        "[rails]\nby = \"netdev\"\nnames = [\"eth[0-3]\"]",
        "[rails]\nby = \"pci\"\nnames = [\"mlx5_0\"]",
        "[rails]\nby = \"subnet\"\nsubnets = [\"10.1\"]",
        "[rails]\nby = \"subnet\"\nsubnets = [\"10.1.2.3/16\"]",
        "[rails]\nby = \"subnet\"\nsubnets = [\"10.0.0.0/8\", \"10.1.0.0/16\"]",
        "[probe]\ndepth = 0",
        "[probe]\ndepth = 8193",
        "[probe]\nqueue_pairs = 65",
        "[probe]\nmessage_size = \"0\"",
        "[probe]\nmessage_size = \"2 GiB\"",
        "[probe]\nmessage_size = \"64 kbit\"",
        "[probe]\nmessage_size = 65536",
        "[probe]\nmessage_size = \"1 GiB\"",
        "[probe]\nduration = \"0s\"",
        "[probe]\nduration = \"-1s\"",
        "[probe]\nduration = \"61s\"",
        "[probe]\nduration = \"1.0005s\"",
        "[probe]\ncompletion = \"pol\"",
        "[probe]\nmemory = \"gpus\"",
        "[probe.tcp]\nstreams = 1",
        "[probe.tcp]\nmessage_size = \"65 MiB\"",
        "[probe]\ntcp = 3",
        "[probe.cost]\nduration = \"1\"",
        "[probe.cost]\nsize = []",
        "[probe.cost]\nsizes = []",
        "[probe.cost]\nlatency_sizes = [\"2 B\", \"0\"]",
        "[sweep]\npattern = \"adaptve\"",
        "[sweep]\npattern = \"pairs\"",
        "[sweep]\nmatchings = 17",
        "[sweep]\ndirections = \"two\"",
        "[sweep]\nrails = \"alone\"",
        "[sweep]\nfabric = \"yes\"",
        "[sweep]\nfabric = true",
        "[sweep]\nmax_load = 50",
        "[sweep]\nmax_load = \"50%\"",
        "[sweep]\ntime_budget = \"8d\"",
        "[sweep]\ntime_budget = 10",
        "[sweep]\nonly_rails = [0]",
        "[sweep]\ntopology_conf = \"topology.conf\"",
        "[sweep]\nibnetdiscover = \"/a\"\ntopology_conf = \"/b\"",
        "[sweep]\ntopology_conf = \"/b\"\n[sweep.groups]\na = [\"n1\"]",
        "[sweep]\ngroups = [\"n1\"]",
        "[sweep.groups]\na = \"n1\"",
        "[sweep.groups]\na = []",
        "[sweep.groups]\na = [\"n[1-\"]",
        "[sweep.groups]\n\"\\u001b[2J\" = [\"n1\"]",
        "[sweep.groups]\nb = [\"n[1-2]\"]\na = [\"n9\", \"n[2-3]\"]",
        "[expect]\nline_rate = \"400\"",
        "[expect]\nline_rate = \"0 Gb/s\"",
        "[expect]\nhalf_below = 0",
        "[expect]\nhalf_below = nan",
        "[expect]\nhalf_below = 0.9",
        "[expect]\ndegraded_below = 1.01",
        "[expect]\ndegraded_below = 0.5",
        "[expects]\nline_rate = \"1 Gb/s\"",
        "[probe]\nbandwidth = 1",
    ]
    .map(|text| format!("{text}\n    {}", only(text)))
    .into();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn nodes_are_needed_and_are_distinct() {
    let said = [
        "",
        "nodes = []",
        "nodes = [\"n1\", \"n[1-2]\", \"n2\"]",
        "nodes = [\"n[1-60000]\", \"m[1-60000]\"]",
        "nodes = [\"n[1-99999999999]\"]",
        "node = [\"n1\"]",
        "nodse = [\"n1\"]",
    ]
    .map(|text| {
        bad(text)
            .problems
            .into_iter()
            .map(|p| p.message)
            .collect::<Vec<_>>()
    });
    insta::assert_debug_snapshot!(said);
}

#[test]
fn who_runs_linerate_is_asked_only_where_the_file_leaves_it_open() {
    let nobody = Operator::default();
    let errors = read("nodes = [\"n1\"]", "cluster.toml", &nobody).unwrap_err();
    insta::assert_snapshot!(errors);
    let text = "nodes = [\"n1\"]\n[ssh]\nuser = \"ada\"\nknown_hosts = [\"/k\"]";
    assert_eq!(read(text, "", &nobody).unwrap().nodes[0].user, "ada");
    let text = "nodes = [\"n1\"]\n[ssh]\nknown_hosts = [\"/k\"]\n[node.n1]\nuser = \"eve\"";
    assert_eq!(read(text, "", &nobody).unwrap().nodes[0].user, "eve");
}

#[test]
fn a_flood_of_problems_is_cut() {
    let nodes: String = (0..500)
        .map(|n| format!("[node.x{n}]\nprt = 1\n"))
        .collect();
    let errors = bad(&format!("nodes = [\"n1\"]\n{nodes}"));
    assert_eq!(errors.problems.len(), 20);
    assert!(errors.more > 0);
    assert!(errors.to_string().ends_with("more problems"), "{errors}");
}

#[test]
fn some_nodes_can_be_picked() {
    let cluster = good("nodes = [\"node[01-04]\"]");
    let settings = cluster.settings(7);
    assert_eq!((settings.nodes.len(), settings.seed), (4, 7));
    let picked = cluster.clone().select(&["node[03-04],node01".into()]);
    let names: Vec<NodeName> = picked.unwrap().settings(0).nodes;
    assert_eq!(names, ["node01", "node03", "node04"].map(NodeName::from));
    let said = ["node4", "node[08-09]", "node["].map(|list| {
        cluster
            .clone()
            .select(&[list.into()])
            .unwrap_err()
            .to_string()
    });
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn some_nodes_can_be_left_out() {
    let cluster = good("nodes = [\"node[01-04]\"]");
    let rest = cluster.clone().without(&["node[01,03]".into()]).unwrap();
    assert_eq!(rest.names(), ["node02", "node04"].map(NodeName::from));
    let said = |list: &str| {
        let refused = cluster.clone().without(&[list.into()]);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        said("node1"),
        "`node1` is not among the nodes of the run: did you mean `node01`?"
    );
    assert_eq!(said("node[01-04]"), "every node is excluded");
}

#[test]
fn a_run_has_the_groups_of_its_nodes_only() {
    let text = "nodes = [\"n[1-4]\"]\n[sweep.groups]\nb = [\"n[3-4]\", \"m1\"]\na = [\"n[1-2]\"]";
    let cluster = good(text).select(&["n[2-3]".into()]).unwrap();
    let groups = cluster.settings(0).sweep.groups;
    let shown: Vec<_> = groups.iter().map(|g| (&*g.name, &*g.nodes)).collect();
    let [two, three] = ["n2", "n3"].map(NodeName::from);
    assert_eq!(shown, [("b", &[three][..]), ("a", &[two][..])]);
    assert!(cluster.has_groups());
    let other = good(text).select(&["n1".into()]).unwrap();
    assert_eq!(other.settings(0).sweep.groups.len(), 1);
}

proptest! {
    #[test]
    fn any_text_is_a_cluster_or_has_problems(text in "(?s).{0,80}|(nodes|ssh|node|rails|\\.|=|\\[|\\]|\"|,|n1|by|3|\n){0,24}") {
        if let Err(errors) = read(&text, "x", &operator()) {
            prop_assert!(!errors.problems.is_empty());
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}

#[test]
fn nccl_tests_are_started_as_the_file_says() {
    let cluster = good("nodes = [\"n1\"]");
    assert_eq!(cluster.settings(1).nccl, None);
    assert_eq!(cluster.nccl.command[0], "all_reduce_perf");
    let cluster = good(
        "nodes = [\"n1\"]\n[nccl]\nenabled = true\ncommand = [\"/opt/perf\", \"-g\", \"{gpus}\"]\n\
         launcher = [\"srun\", \"--nodelist={hosts}\"]\ntimeout = \"90s\"",
    );
    let nccl = cluster.settings(1).nccl.unwrap();
    assert_eq!(nccl, cluster.nccl);
    assert_eq!((nccl.launcher.len(), nccl.timeout_s), (2, 90));
    assert_eq!(
        only("[nccl]\nlauncher = [\"mpirun\", \"{host}\"]"),
        "3:23 `{host}` is not known here (known here: `{hosts}`, `{nodes}`, `{gpus}`, `{ranks}`)"
    );
    assert_eq!(
        only("[nccl]\ncommand = [\"{gpus}\"]"),
        "3:12 `command` begins with the program to run"
    );
    assert_eq!(only("[nccl]\ncommand = []"), "3:11 `command` is empty");
}
