use super::*;
use crate::PacketWriter;
use proptest::prelude::*;

fn written(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = PacketWriter::new();
    for payload in payloads {
        writer.reply_to(0);
        writer.packet(|out| out.extend_from_slice(payload));
    }
    writer.bytes().to_vec()
}

fn pattern(bytes: usize) -> Vec<u8> {
    // The length is prime, so that frames differ.
    let unit: Vec<u8> = (0..4093usize).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut pattern = unit.repeat(bytes.div_ceil(unit.len()));
    pattern.truncate(bytes);
    pattern
}

#[test]
fn frames_have_three_bytes_of_length_and_a_sequence() {
    let mut writer = PacketWriter::new();
    writer.packet(|out| out.extend_from_slice(b"abc"));
    writer.packet(|_| {});
    assert_eq!(writer.bytes(), [3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 1]);
    assert_eq!(writer.sequence(), 2);
}

#[test]
fn an_abandoned_frame_leaves_no_byte() {
    let mut writer = PacketWriter::new();
    writer.packet(|out| out.push(1));
    writer.frame().payload().extend_from_slice(b"half a row");
    assert_eq!((writer.bytes(), writer.sequence()), (&[1, 0, 0, 0, 1][..], 1));
}

#[test]
fn large_packets_are_split_and_joined_at_the_borders() {
    let cases = [
        (FRAME_PAYLOAD_MAX - 1, 0),
        (FRAME_PAYLOAD_MAX, 1),
        (FRAME_PAYLOAD_MAX + 1, 1),
        (2 * FRAME_PAYLOAD_MAX, 2),
        (3 * FRAME_PAYLOAD_MAX + 7, 3),
    ];
    for (bytes, last_sequence) in cases {
        let payload = pattern(bytes);
        let wire = written(&[payload.clone(), b"next".to_vec()]);
        let frames = usize::from(last_sequence) + 1;
        assert_eq!(wire.len(), bytes + frames * FRAME_HEADER_BYTES + FRAME_HEADER_BYTES + 4);

        let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        reader.feed(&wire);
        let packet = reader.next_packet(0).unwrap().unwrap();
        assert!(packet.payload == payload, "{bytes} bytes differ");
        assert_eq!(packet.sequence, last_sequence);
        let packet = reader.next_packet(0).unwrap().unwrap();
        assert_eq!((packet.payload, packet.reply_sequence()), (&b"next"[..], 1));
        assert_eq!(reader.next_packet(0), Ok(None));
    }
}

#[test]
fn the_buffer_shrinks_after_a_giant_packet() {
    let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
    reader.feed(&written(&[pattern(20 << 20)]));
    assert!(reader.next_packet(0).unwrap().is_some());
    assert!(reader.buffer_bytes() >= 20 << 20);
    reader.spare();
    assert_eq!(reader.buffer_bytes(), BUFFER_BYTES_MIN);
}

#[test]
fn the_buffer_keeps_the_size_that_packets_need_and_forgets_it_slowly() {
    let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
    reader.feed(&written(&[pattern(500 << 10)]));
    assert!(reader.next_packet(0).unwrap().is_some());
    reader.spare();
    assert_eq!(reader.buffer_bytes(), 512 << 10);
    for _ in 0..100 {
        reader.feed(&written(&[pattern(100)]));
        assert!(reader.next_packet(0).unwrap().is_some());
    }
    reader.spare();
    assert!(reader.buffer_bytes() <= 2 * BUFFER_BYTES_MIN);
}

#[test]
fn a_header_alone_allocates_no_giant_buffer() {
    let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
    reader.feed(&[0xff, 0xff, 0xff, 0]);
    assert_eq!(reader.next_packet(0), Ok(None));
    reader.spare();
    assert!(reader.buffer_bytes() <= BUFFER_BYTES_TRUSTED);
}

#[test]
fn too_large_is_refused_as_soon_as_a_header_says_so() {
    let mut reader = PacketReader::new(1000);
    reader.feed(&[0xe9, 3, 0, 0]);
    assert_eq!(reader.next_packet(0), Err(Error::PacketTooLarge { bytes_max: 1000 }));

    let mut reader = PacketReader::new(1000);
    reader.feed(&written(&[pattern(1000)]));
    assert!(reader.next_packet(0).unwrap().is_some());

    let mut reader = PacketReader::new(FRAME_PAYLOAD_MAX);
    let wire = written(&[pattern(FRAME_PAYLOAD_MAX + 1)]);
    reader.feed(&wire[..wire.len() - 1]);
    let refused = reader.next_packet(0).unwrap_err();
    assert_eq!((refused.errno(), refused.sqlstate()), (1153, "08S01"));
}

#[test]
fn a_wrong_sequence_id_is_out_of_order() {
    let mut reader = PacketReader::new(1000);
    reader.feed(&[1, 0, 0, 2, 9]);
    assert_eq!(reader.next_packet(0), Err(Error::OutOfOrder { expected: 0, found: 2 }));
    assert_eq!(reader.next_packet(2).unwrap().unwrap().payload, [9]);
}

proptest! {
    #[test]
    fn packets_survive_any_cut_of_the_stream(
        sizes in prop::collection::vec(prop_oneof![0..300usize, 3000..40_000usize], 1..20),
        cuts in prop::collection::vec(1..20_000usize, 1..20),
    ) {
        let payloads: Vec<Vec<u8>> = sizes.into_iter().map(pattern).collect();
        let wire = written(&payloads);
        let mut reader = PacketReader::new(PAYLOAD_BYTES_MAX_DEFAULT);
        let (mut got, mut rest) = (Vec::new(), &wire[..]);
        for cut in cuts.iter().cycle() {
            let spare = reader.spare();
            let count = (*cut).min(rest.len()).min(spare.len());
            spare[..count].copy_from_slice(&rest[..count]);
            reader.filled(count);
            rest = &rest[count..];
            while let Some(packet) = reader.next_packet(0).unwrap() {
                got.push(packet.payload.to_vec());
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, payloads);
        prop_assert_eq!(reader.unread_bytes(), 0);
    }
}

#[test]
fn a_packet_that_nobody_wants_is_thrown_away_as_it_comes() {
    let mut writer = PacketWriter::new();
    writer.packet(|out| out.extend(std::iter::repeat_n(7, 2 * FRAME_PAYLOAD_MAX)));
    let unwanted = writer.take_bytes();
    writer.reply_to(0);
    writer.packet(|out| out.extend_from_slice(b"next"));
    let mut bytes = unwanted;
    bytes.extend_from_slice(writer.bytes());
    for piece in [4093, 1 << 20, FRAME_PAYLOAD_MAX + 3] {
        let mut reader = PacketReader::new(1024);
        let mut sequence = None;
        for part in bytes.chunks(piece) {
            reader.feed(part);
            if sequence.is_none() {
                sequence = reader.skip_packet();
                assert!(sequence.is_some() || reader.unread_bytes() < FRAME_HEADER_BYTES);
            }
        }
        assert_eq!(sequence, Some(2), "two full frames and an empty one");
        assert_eq!(reader.next_packet(0).unwrap().unwrap().payload, b"next");
    }
}
