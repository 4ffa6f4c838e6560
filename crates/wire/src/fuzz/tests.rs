use super::*;
use crate::{Param, auth::AuthPlugin, auth::Scramble, handshake, types::Collation};
use proptest::prelude::*;

/// A valid packet of each kind without frame header, to mutate.
fn seeds() -> Vec<Vec<u8>> {
    let mut writer = PacketWriter::new();
    let mut seeds = Vec::new();
    let mut seed = |write: &dyn Fn(&mut PacketWriter)| {
        writer.set_capabilities(Capabilities::SERVER);
        write(&mut writer);
        seeds.push(writer.bytes()[4..].to_vec());
        writer.clear();
    };
    seed(&|w| {
        w.greeting(&handshake::Greeting {
            version: "8.0.36",
            connection_id: 1,
            scramble: Scramble::from_random([3; 20]),
            capabilities: Capabilities::SERVER,
            collation: Collation::UTF8MB4_BIN,
            status: Default::default(),
            plugin: AuthPlugin::Native,
        });
    });
    seed(&|w| {
        w.login(&handshake::LoginAnswer {
            hello: handshake::ClientHello {
                capabilities: Capabilities::SERVER,
                packet_bytes_max: 1,
                collation: Collation(45),
            },
            user: "root",
            auth_response: &[9; 32],
            database: Some("db"),
            plugin: AuthPlugin::CachingSha2,
            attributes: &[("name", "value")],
        });
    });
    seed(&|w| w.command_execute(1, &[Param::Int(1), Param::Null, Param::Bytes(b"abc")], true));
    seed(&|w| w.command_change_user("ana", "db", 45));
    seed(&|w| w.command_query(b"select 1"));
    seed(&|w| w.columns(&[ColumnDefinition::parameter()], Default::default()));
    seed(&|w| w.err(1064, "42000", "no"));
    seed(&|w| w.ok(&Default::default()));
    seeds
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut writer = PacketWriter::new();
    writer.packet(|out| out.extend_from_slice(payload));
    writer.bytes().to_vec()
}

fn all(payload: &[u8]) {
    fuzz_packets(payload);
    fuzz_packets(&framed(payload));
    fuzz_handshake(payload);
    for count in [0, 1, 3, 200] {
        let mut counted = vec![count];
        counted.extend_from_slice(payload);
        fuzz_execute(&counted);
    }
}

/// Valid packets get past the first checks of the entry points.
#[test]
fn seeds_are_accepted() {
    let accepted = |index: usize| seeds().swap_remove(index);
    assert!(Greeting::parse(&accepted(0)).is_ok());
    assert!(HandshakeResponse::parse(&accepted(1)).is_ok());
    for index in 2..5 {
        assert!(Command::parse(&accepted(index), Capabilities::SERVER).is_ok());
    }
    seeds().iter().for_each(|seed| all(seed));
}

#[test]
fn every_cut_of_every_seed() {
    for seed in seeds() {
        (0..seed.len()).for_each(|end| all(&seed[..end]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
        all(&data);
    }

    #[test]
    fn mutated_seeds(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let seeds = seeds();
        let mut seed = which.get(&seeds).clone();
        for (at, byte) in edits {
            let at = at.index(seed.len());
            seed[at] = byte;
        }
        all(&seed);
    }
}
