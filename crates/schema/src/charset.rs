//! Character sets of MySQL other than UTF-8. All texts here are UTF-8: those of another character
//! set are converted where they come in, and where their bytes are asked for.

use encoding_rs::{DecoderResult, EncoderResult, Encoding};
use freshet_base::{Result, bail};

/// A character set whose texts can be converted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charset {
    /// In MySQL.
    name: &'static str,
    encoding: &'static Encoding,
}

/// The encoding of the WHATWG standard that has the characters of a character set of MySQL.
fn encoding_of(name: &str) -> Option<(&'static str, &'static Encoding)> {
    Some(match name {
        "big5" => ("big5", encoding_rs::BIG5),
        "cp1250" => ("cp1250", encoding_rs::WINDOWS_1250),
        "cp1251" => ("cp1251", encoding_rs::WINDOWS_1251),
        "cp1256" => ("cp1256", encoding_rs::WINDOWS_1256),
        "cp1257" => ("cp1257", encoding_rs::WINDOWS_1257),
        "cp866" => ("cp866", encoding_rs::IBM866),
        "cp932" => ("cp932", encoding_rs::SHIFT_JIS),
        "eucjpms" => ("eucjpms", encoding_rs::EUC_JP),
        "euckr" => ("euckr", encoding_rs::EUC_KR),
        "gb18030" => ("gb18030", encoding_rs::GB18030),
        "gb2312" => ("gb2312", encoding_rs::GBK),
        "gbk" => ("gbk", encoding_rs::GBK),
        "greek" => ("greek", encoding_rs::ISO_8859_7),
        "hebrew" => ("hebrew", encoding_rs::ISO_8859_8),
        "koi8r" => ("koi8r", encoding_rs::KOI8_R),
        "koi8u" => ("koi8u", encoding_rs::KOI8_U),
        "latin1" => ("latin1", encoding_rs::WINDOWS_1252),
        "latin2" => ("latin2", encoding_rs::ISO_8859_2),
        "latin5" => ("latin5", encoding_rs::WINDOWS_1254),
        "latin7" => ("latin7", encoding_rs::ISO_8859_13),
        "macroman" => ("macroman", encoding_rs::MACINTOSH),
        "sjis" => ("sjis", encoding_rs::SHIFT_JIS),
        "tis620" => ("tis620", encoding_rs::WINDOWS_874),
        "ucs2" => ("ucs2", encoding_rs::UTF_16BE),
        "ujis" => ("ujis", encoding_rs::EUC_JP),
        "utf16" => ("utf16", encoding_rs::UTF_16BE),
        "utf16le" => ("utf16le", encoding_rs::UTF_16LE),
        "ascii" | "utf8" | "utf8mb3" | "utf8mb4" => ("utf8mb4", encoding_rs::UTF_8),
        _ => return None,
    })
}

/// What stands in place of a character that a character set lacks.
const MISSING: u8 = b'?';

impl Charset {
    /// The character set of this name of MySQL; `None` for those that cannot be converted, and for
    /// `binary`.
    pub fn named(name: &str) -> Option<Self> {
        let (name, encoding) = encoding_of(&name.to_ascii_lowercase())?;
        Some(Self { name, encoding })
    }

    /// Whether its texts are as they are here.
    pub fn is_utf8(self) -> bool {
        self.encoding == encoding_rs::UTF_8
    }

    /// The text of these bytes; `None` where they are none.
    pub fn decode(self, bytes: &[u8]) -> Option<String> {
        let text = self.encoding.decode_without_bom_handling_and_without_replacement(bytes);
        text.map(std::borrow::Cow::into_owned)
    }

    /// The bytes of a text; a character that there is none for is a question mark.
    pub fn encode(self, text: &str) -> Vec<u8> {
        if self.encoding == encoding_rs::UTF_16BE {
            return text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        }
        if self.encoding == encoding_rs::UTF_16LE {
            return text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        }
        let (mut encoder, mut left) = (self.encoding.new_encoder(), text);
        let mut bytes = Vec::with_capacity(text.len() + 16);
        loop {
            let more = encoder.max_buffer_length_from_utf8_without_replacement(left.len());
            bytes.reserve(more.unwrap_or(0));
            let (ended, read) =
                encoder.encode_from_utf8_to_vec_without_replacement(left, &mut bytes, true);
            left = &left[read..];
            match ended {
                EncoderResult::InputEmpty => return bytes,
                EncoderResult::OutputFull => {}
                EncoderResult::Unmappable(_) => bytes.push(MISSING),
            }
        }
    }

    /// Reads a text that comes in parts; a mark of the order of bytes in front of it is left out.
    pub fn reader(self) -> CharsetReader {
        CharsetReader {
            name: self.name,
            decoder: self.encoding.new_decoder_with_bom_removal(),
            read: 0,
        }
    }
}

/// The text of a character set, which comes in parts.
pub struct CharsetReader {
    name: &'static str,
    decoder: encoding_rs::Decoder,
    /// Bytes before the next part.
    read: u64,
}

impl CharsetReader {
    /// The part as UTF-8, but for bytes at its end that are part of a character.
    ///
    /// # Errors
    /// 1300 for bytes that are no text, also at the end of the `last` part.
    pub fn next(&mut self, bytes: &[u8], last: bool) -> Result<String> {
        let most = self.decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        let mut text = String::with_capacity(most.expect("a part is small"));
        let (ended, read) =
            self.decoder.decode_to_string_without_replacement(bytes, &mut text, last);
        if let DecoderResult::Malformed(..) = ended {
            let at = self.read + read as u64;
            bail!(NotUtf8, "Invalid {} character string: before byte {at} of the file", self.name);
        }
        assert!(ended == DecoderResult::InputEmpty, "there is room for the text");
        self.read += bytes.len() as u64;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_bytes_and_texts_again() {
        for (charset, text, bytes) in [
            ("latin1", "caf\u{e9} \u{20ac}", &b"caf\xe9 \x80"[..]),
            ("LATIN2", "\u{15b}", &b"\xb6"[..]),
            ("cp1251", "\u{434}\u{430}", &b"\xe4\xe0"[..]),
            ("gbk", "\u{4e2d}\u{6587}", &b"\xd6\xd0\xce\xc4"[..]),
            ("big5", "\u{4e2d}", &b"\xa4\xa4"[..]),
            ("sjis", "\u{65e5}", &b"\x93\xfa"[..]),
            ("utf16", "a\u{1f600}", &b"\x00a\xd8\x3d\xde\x00"[..]),
            ("utf16le", "a\u{e9}", &b"a\x00\xe9\x00"[..]),
            ("utf8", "\u{e9}", "\u{e9}".as_bytes()),
        ] {
            let known = Charset::named(charset).unwrap();
            assert_eq!(known.encode(text), bytes, "{charset}");
            assert_eq!(known.decode(bytes).as_deref(), Some(text), "{charset}");
        }
        assert_eq!(Charset::named("binary"), None);
        assert_eq!(Charset::named("utf32"), None);
    }

    #[test]
    fn what_a_set_lacks_is_a_question_mark() {
        let latin1 = Charset::named("latin1").unwrap();
        assert_eq!(latin1.encode("a\u{4e2d}b\u{4e2d}"), b"a?b?");
        assert_eq!(Charset::named("gbk").unwrap().decode(b"\xd6"), None);
    }

    #[test]
    fn characters_may_be_divided_between_parts() {
        let mut reader = Charset::named("gbk").unwrap().reader();
        assert_eq!(reader.next(b"a\xd6", false).unwrap(), "a");
        assert_eq!(reader.next(b"\xd0,b", false).unwrap(), "\u{4e2d},b");
        assert_eq!(reader.next(b"", true).unwrap(), "");
        let mut reader = Charset::named("utf16").unwrap().reader();
        assert_eq!(reader.next(b"\xfe\xff\x00", false).unwrap(), "");
        assert_eq!(reader.next(b"a\x00b", true).unwrap(), "ab");
        let mut reader = Charset::named("gbk").unwrap().reader();
        let error = reader.next(b"ab\xd6", true).unwrap_err();
        assert_eq!(error.code().errno(), 1300);
    }
}
