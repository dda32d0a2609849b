//! The table of explanations, asserted by what the operator must find in it.

use super::*;

fn gid(text: &str) -> Gid {
    text.parse().expect("a GID")
}

fn situation() -> Situation {
    Situation {
        device: "mlx5_0".into(),
        bytes: Some(8_388_608),
        memlock: Some(MemlockLimit::Bytes(Bytes(65_536))),
        path: Some(PathFacts {
            local_gid: gid("::ffff:10.0.0.1"),
            remote_gid: gid("::ffff:10.0.0.2"),
            mtu: PathMtu::Mtu4096,
        }),
    }
}

fn text(operation: Operation, errno: Errno) -> String {
    explain(operation, errno as i32, &situation()).to_string()
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn enomem_with_a_small_memlock_limit_names_the_limit_and_where_to_raise_it() {
    assert_says(
        &text(Operation::RegisterMemory, Errno::ENOMEM),
        &[
            "RLIMIT_MEMLOCK) is 64 KiB",
            "8388608 bytes",
            "limits.conf",
            "LimitMEMLOCK=infinity",
            "sshd",
            "slurmd",
        ],
    );
    assert_says(
        &text(Operation::CreateQueuePair, Errno::ENOMEM),
        &["64 KiB", "limits.conf"],
    );
}

#[test]
fn gpu_memory_that_is_refused_names_what_would_have_taken_it() {
    for errno in [Errno::EFAULT, Errno::EINVAL] {
        assert_says(
            &text(Operation::RegisterPeerMemory, errno),
            &["no peer memory module takes this address", "nvidia_peermem"],
        );
    }
    for errno in [Errno::EOPNOTSUPP, Errno::EPROTONOSUPPORT] {
        assert_says(
            &text(Operation::RegisterDmaBuf, errno),
            &["the driver of mlx5_0 takes no dma-buf"],
        );
    }
    assert_says(&text(Operation::RegisterDmaBuf, Errno::ENOMEM), &["BAR1"]);
}

#[test]
fn enomem_without_a_limit_does_not_blame_the_limit() {
    let unlimited = Situation {
        memlock: Some(MemlockLimit::Unlimited),
        ..situation()
    };
    let text = explain(Operation::RegisterMemory, Errno::ENOMEM as i32, &unlimited).to_string();
    assert_says(&text, &["locked memory is unlimited", "exhausted"]);
    assert!(!text.contains("limits.conf"), "{text}");
}

#[test]
fn no_permission_names_the_device_files() {
    for errno in [Errno::EACCES, Errno::EPERM] {
        assert_says(
            &text(Operation::OpenDevice, errno),
            &["/dev/infiniband/uverbs*", "0666", "container"],
        );
    }
}

#[test]
fn timeout_on_the_way_to_rtr_is_address_resolution_and_names_both_gids() {
    for errno in [Errno::ETIMEDOUT, Errno::EHOSTUNREACH, Errno::ENETUNREACH] {
        assert_says(
            &text(Operation::ReadyToReceive, errno),
            &[
                "could not be resolved",
                "the peer at GID",
                "::ffff:10.0.0.1",
                "::ffff:10.0.0.2",
                "ping -I",
            ],
        );
    }
    // The same number elsewhere is not an address that was not resolved.
    assert!(!text(Operation::OpenDevice, Errno::ETIMEDOUT).contains("resolved"));
}

#[test]
fn retry_exceeded_names_gids_mtu_and_who_did_not_answer() {
    let text = explain_status(12, 0, &situation()).to_string();
    assert_says(
        &text,
        &[
            "the peer at GID ::ffff:10.0.0.2",
            "did not answer",
            "transport retry counter exceeded",
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.2",
            "MTU 4096",
            "4791",
        ],
    );
}

#[test]
fn each_status_of_a_reliable_connection_has_its_own_words() {
    let says = |status, words: &[&str]| {
        assert_says(
            &explain_status(status, 0x1d, &situation()).to_string(),
            words,
        )
    };
    says(1, &["local length error"]);
    says(4, &["local protection error", "mlx5_0"]);
    says(5, &["flushed"]);
    says(9, &["remote invalid request"]);
    says(10, &["remote access error", "the peer at GID"]);
    says(11, &["remote operation error"]);
    says(13, &["receiver not ready", "the peer at GID"]);
    says(19, &["fatal"]);
    says(2, &["local QP operation error", "0x1d"]);
    says(77, &["status 77"]);
}

#[test]
fn no_number_is_left_without_an_explanation() {
    use Operation::*;
    for operation in [
        ListDevices,
        OpenDevice,
        Query,
        AllocateProtectionDomain,
        RegisterMemory,
        CreateCompletionQueue,
        CreateQueuePair,
        Initialise,
        ReadyToReceive,
        ReadyToSend,
        Post,
        Complete,
    ] {
        for errno in 0..140 {
            let explanation = explain(operation, errno, &Situation::default());
            assert!(!explanation.cause.is_empty() && !explanation.remedy.is_empty());
        }
    }
}
