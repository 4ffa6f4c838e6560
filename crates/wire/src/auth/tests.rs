use super::*;

/// The expected values below were computed by an independent program.
const SCRAMBLE: Scramble =
    Scramble([10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21]);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[test]
fn native_vectors() {
    assert_eq!(
        Credential::native(b"password"),
        Credential::Native(hex("2470c0c06dee42fd1618bb99005adca2ec9d1e19").try_into().unwrap())
    );
    let response = hex("6a149bdd80bda1ebf0fa2bd2cf2e9717fecc34bb");
    assert_eq!(native_response(b"secret", &SCRAMBLE), response);
    assert!(Credential::native(b"secret").accepts_response(&SCRAMBLE, &response));
    assert!(!Credential::native(b"secret2").accepts_response(&SCRAMBLE, &response));
}

#[test]
fn sha2_vectors() {
    let stored = hex("3881219d087dd9c634373fd33dfa33a2cb6bfc6c520b64b8bb60ef2ceb534ae7");
    assert_eq!(Credential::sha2_fast(b"secret"), Credential::Sha2Fast(stored.try_into().unwrap()));
    for (password, response) in [
        ("secret", "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c"),
        ("secret2", "abc3934a012cf342e876071c8ee202de51785b430258a7a0138bc79c4d800bc6"),
    ] {
        let password = password.as_bytes();
        assert_eq!(sha2_response(password, &SCRAMBLE), hex(response));
        assert!(Credential::sha2_fast(password).accepts_response(&SCRAMBLE, &hex(response)));
        assert!(!Credential::sha2_fast(b"other").accepts_response(&SCRAMBLE, &hex(response)));
    }
}

#[test]
fn an_answer_is_worth_nothing_under_another_scramble() {
    let other = Scramble::from_random([9; SCRAMBLE_BYTES]);
    let native = native_response(b"secret", &SCRAMBLE);
    assert!(!Credential::native(b"secret").accepts_response(&other, &native));
    let sha2 = sha2_response(b"secret", &SCRAMBLE);
    assert!(!Credential::sha2_fast(b"secret").accepts_response(&other, &sha2));
}

#[test]
fn empty_passwords_have_empty_answers() {
    assert!(native_response(b"", &SCRAMBLE).is_empty());
    assert!(sha2_response(b"", &SCRAMBLE).is_empty());
    for credential in [Credential::native(b""), Credential::sha2_fast(b"")] {
        assert!(matches!(credential, Credential::Empty(_)));
        assert!(credential.accepts_response(&SCRAMBLE, b""));
        assert!(!credential.accepts_response(&SCRAMBLE, &[1; 20]));
        assert!(credential.accepts_password(b"") && !credential.accepts_password(b"x"));
    }
    assert!(!Credential::native(b"secret").accepts_response(&SCRAMBLE, b""));
    assert!(!Credential::Never(AuthPlugin::Native).accepts_response(&SCRAMBLE, b""));
    assert!(!Credential::Never(AuthPlugin::Native).accepts_password(b""));
}

#[test]
fn every_stored_form_recognises_its_password() {
    let slow = SlowHash::new(b"secret", SCRAMBLE, 1).unwrap();
    let stored = [
        Credential::native(b"secret"),
        Credential::sha2_fast(b"secret"),
        Credential::Sha2Slow(slow),
    ];
    for credential in stored {
        assert!(credential.accepts_password(b"secret"));
        assert!(!credential.accepts_password(b"Secret"));
        assert!(!credential.accepts_password(b""));
    }
}

#[test]
fn slow_hashes_survive_their_stored_form() {
    let slow = SlowHash::new(b"secret", SCRAMBLE, SlowHash::THOUSAND_ROUNDS).unwrap();
    let stored = slow.to_bytes();
    assert_eq!((&stored[..7], stored.len()), (&b"$A$005$"[..], 70));
    assert_eq!(SlowHash::from_bytes(&stored), Some(slow));
    assert_eq!(SlowHash::from_bytes(&stored[..69]), None);
    assert_eq!(SlowHash::from_bytes(b"$A$000$"), None);
}

#[test]
fn passwords_too_long_to_hash_slowly_are_refused() {
    let long = [b'x'; PASSWORD_BYTES_MAX + 1];
    assert_eq!(SlowHash::new(&long, SCRAMBLE, 1), None);
    let slow = SlowHash::new(&long[1..], SCRAMBLE, 1).unwrap();
    assert!(slow.accepts(&long[1..]) && !slow.accepts(&long));
}

#[test]
fn scrambles_are_text_without_zero_and_dollar() {
    for offset in 0..=255u8 {
        let shifted: [u8; SCRAMBLE_BYTES] =
            std::array::from_fn(|i| offset.wrapping_add(13 * i as u8));
        let scramble = Scramble::from_random(shifted);
        assert!(scramble.bytes().iter().all(|byte| (1..0x80).contains(byte) && *byte != b'$'));
    }
}
