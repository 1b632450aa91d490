//! Pictures that users upload: decoded within limits and encoded again, so that nothing of the file is stored but what it shows.

use std::io::Cursor;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Bytes;
use domain::accounts::Picture;
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit};
use foundation::error::{Error, Result};
use foundation::id::AccountId;
use image::imageops::{self, FilterType};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits, Rgba, RgbaImage};
use tokio::task::spawn_blocking;

use crate::texts::text;

/// Bytes of the largest file.
pub(crate) const MAX_FILE: usize = 256 * 1_024;
/// Pixels of its longest side.
const MAX_SIDE: u32 = 2_000;
/// Bytes that the decoder may use besides the pixels.
const MAX_MEMORY: u64 = 64 << 20;
/// The largest size that is stored, in pixels: more than pages, documents and e-mails show.
const WIDTH: u32 = 600;
const HEIGHT: u32 = 200;

pub(crate) const TOO_LONG: &str = "Logo: the file has more than 256 KiB";
const TOO_LARGE: &str = "Logo: the picture is wider or higher than 2,000 pixels";
const NOT_A_PICTURE: &str = "Logo: the file is not a PNG or a JPEG, or is damaged";

/// One picture is decoded at a time, because that can take 100 MB. At most one of each account waits for this, so that no
/// account keeps the others waiting.
static DECODING: LazyLock<FairConcurrencyLimit<AccountId>> =
    LazyLock::new(|| FairConcurrencyLimit::new(ConcurrencyLimit::new(1, PERMIT_TIMEOUT, BUSY), |_| 1));
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY: &str = "too many pictures are being read; nothing was done, and it is safe to retry";

/// Reads the file that was uploaded to an account, and drops it.
///
/// # Errors
/// [`Error::Invalid`] unless it is a PNG or a JPEG within the limits; [`Error::Busy`] if others take too long.
pub(crate) async fn read(file: Bytes, account: AccountId) -> Result<Picture> {
    if file.len() > MAX_FILE {
        return Err(refused(TOO_LONG));
    }
    let permit = DECODING.acquire([account]).await?;
    let decoding = spawn_blocking(move || {
        let (_permit, file) = (permit, file);
        decode(&file)
    });
    // Decoders may panic at damaged files.
    decoding.await.unwrap_or(Err(NOT_A_PICTURE)).map_err(refused)
}

fn refused(problem: &'static str) -> Error {
    Error::invalid("logo", text(problem))
}

/// The picture on white, because merchants' pages, documents and e-mails have light and dark backgrounds.
fn decode(file: &[u8]) -> Result<Picture, &'static str> {
    let is_accepted = |format: &ImageFormat| matches!(format, ImageFormat::Png | ImageFormat::Jpeg);
    let format = image::guess_format(file).ok().filter(is_accepted).ok_or(NOT_A_PICTURE)?;
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_MEMORY);
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    reader.limits(limits);
    // The size is checked before there is memory for the pixels.
    let mut decoder = reader.into_decoder().map_err(|error| problem(&error))?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut original = DynamicImage::from_decoder(decoder).map_err(|error| problem(&error))?;
    original.apply_orientation(orientation);
    let original = original.into_rgba8();
    let mut on_white = RgbaImage::from_pixel(original.width(), original.height(), Rgba([u8::MAX; 4]));
    imageops::overlay(&mut on_white, &original, 0, 0);
    let mut shown = DynamicImage::from(on_white);
    if shown.width() > WIDTH || shown.height() > HEIGHT {
        shown = shown.resize(WIDTH, HEIGHT, FilterType::CatmullRom);
    }
    let shown = shown.into_rgb8();
    let mut png = Vec::new();
    shown.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).map_err(|error| problem(&error))?;
    let pixels = |side: u32| i32::try_from(side).map_err(|_| TOO_LARGE);
    Ok(Picture { png, width: pixels(shown.width())?, height: pixels(shown.height())? })
}

fn problem(error: &ImageError) -> &'static str {
    if matches!(error, ImageError::Limits(_)) { TOO_LARGE } else { NOT_A_PICTURE }
}

#[cfg(test)]
mod tests {
    use foundation::crypto::unhex;
    use foundation::time::Timestamp;
    use image::Rgb;

    use super::*;

    /// A tiny PNG that declares 50,000 × 50,000 pixels.
    const BOMB: &str = "89504e470d0a1a0a0000000d494844520000c3500000c3500802000000c4cdaa9d0000000c4944415478da6360a03d\
                        000000640001b899ef990000000049454e44ae426082";

    /// A file of this size and format: on the left half red, on the right half nothing.
    fn file(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let color = |x, _| if x < width / 2 { Rgba([192, 32, 64, 255]) } else { Rgba([0, 0, 0, 0]) };
        let drawn = DynamicImage::from(RgbaImage::from_fn(width, height, color));
        // A JPEG has no transparent pixels.
        let drawn = if format == ImageFormat::Jpeg { DynamicImage::from(drawn.into_rgb8()) } else { drawn };
        let mut file = Vec::new();
        drawn.write_to(Cursor::new(&mut file), format).expect("encoded");
        file
    }

    async fn read_file(file: Vec<u8>) -> Result<Picture> {
        let now = Timestamp::from_millisecond(0).expect("in range");
        read(file.into(), AccountId::new(now)).await
    }

    #[tokio::test]
    async fn pictures_are_scaled_down_and_put_on_white() {
        for (size, stored) in [((40, 20), (40, 20)), ((900, 100), (600, 67)), ((400, 400), (200, 200))] {
            let picture = read_file(file(size.0, size.1, ImageFormat::Png)).await.expect("a picture");
            assert_eq!((picture.width, picture.height), stored, "{size:?}");
            let shown = image::load_from_memory(&picture.png).expect("a PNG").into_rgb8();
            assert_eq!((shown.width(), shown.height()), (stored.0 as u32, stored.1 as u32));
            let corners = [shown.get_pixel(0, 0), shown.get_pixel(shown.width() - 1, 0)];
            assert_eq!(corners, [&Rgb([192, 32, 64]), &Rgb([255; 3])]);
        }
        let picture = read_file(file(1_200, 300, ImageFormat::Jpeg)).await.expect("a picture");
        assert_eq!((picture.width, picture.height), (600, 150));
    }

    #[tokio::test]
    async fn nothing_of_the_file_is_kept() {
        let plain = file(40, 20, ImageFormat::Png);
        let with_page = [&plain[..], b"<script>alert(1)</script>"].concat();
        let [plain, with_page] = [read_file(plain).await, read_file(with_page).await];
        assert_eq!(plain.expect("a picture"), with_page.expect("a picture"));
    }

    #[tokio::test]
    async fn other_files_are_refused() {
        let damaged = file(40, 20, ImageFormat::Png);
        let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>".to_vec();
        for (sent, problem) in [
            (svg, NOT_A_PICTURE),
            (vec![], NOT_A_PICTURE),
            (damaged[..damaged.len() / 2].to_vec(), NOT_A_PICTURE),
            (b"GIF89a\x01\x00\x01\x00".to_vec(), NOT_A_PICTURE),
            (unhex(BOMB).expect("hexadecimal"), TOO_LARGE),
            (file(2_001, 1, ImageFormat::Png), TOO_LARGE),
            (file(1, 2_001, ImageFormat::Jpeg), TOO_LARGE),
            (vec![0; MAX_FILE + 1], TOO_LONG),
        ] {
            let read = read_file(sent).await;
            assert_eq!(read.expect_err(problem).to_string(), problem);
        }
    }
}
