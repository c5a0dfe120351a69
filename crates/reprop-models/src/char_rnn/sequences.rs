//! Texts cut into sequences that are read side by side.

use thiserror::Error;

/// A text that is shorter than the sequences asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{batch} sequences of {steps} steps need {} symbols, and the text has {found}", batch * (steps + 1))]
pub struct TextTooShort {
    /// Sequences side by side.
    pub batch: usize,
    /// Steps of each.
    pub steps: usize,
    /// Symbols of the text.
    pub found: usize,
}

/// Sequences of symbols that are read side by side, each one symbol longer than it has steps.
///
/// ```
/// use reprop_models::Sequences;
///
/// let text: Vec<u32> = (0..100).collect();
/// let sequences = Sequences::cut(&text, 10, 2, 1)?;
/// // The second window of each half.
/// assert_eq!((sequences.inputs(0), sequences.targets(0)), (&[10, 60][..], &[11, 61][..]));
/// assert!(Sequences::cut(&text, 60, 2, 0).is_err());
/// # Ok::<(), reprop_models::TextTooShort>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    batch: usize,
    /// One row of `batch` symbols a step, and one more.
    rows: Vec<u32>,
}

impl Sequences {
    /// Cuts the text into `batch` parts and takes the window of `steps` steps number `window` of each; after the last
    /// comes the first.
    ///
    /// # Errors
    ///
    /// [`TextTooShort`].
    pub fn cut(text: &[u32], steps: usize, batch: usize, window: usize) -> Result<Self, TextTooShort> {
        let windows = Self::windows(text.len(), steps, batch);
        if windows == 0 {
            return Err(TextTooShort { batch, steps, found: text.len() });
        }
        let (part, first) = (text.len() / batch, window % windows * steps);
        let at = |row: usize, place: usize| text[place * part + first + row];
        let rows = (0..=steps).flat_map(|row| (0..batch).map(move |place| at(row, place))).collect();
        Ok(Self { batch, rows })
    }

    /// How many windows a text of `symbols` symbols has.
    pub fn windows(symbols: usize, steps: usize, batch: usize) -> usize {
        let part = symbols.checked_div(batch).unwrap_or(0);
        part.saturating_sub(1).checked_div(steps).unwrap_or(0)
    }

    /// Steps of each sequence.
    pub fn steps(&self) -> usize {
        self.rows.len() / self.batch - 1
    }

    /// Sequences side by side.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The symbols that step `step` reads.
    pub fn inputs(&self, step: usize) -> &[u32] {
        &self.rows[step * self.batch..(step + 1) * self.batch]
    }

    /// The symbols that it should tell.
    pub fn targets(&self, step: usize) -> &[u32] {
        self.inputs(step + 1)
    }
}
