//! What defines a run on text.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use reprop_data::{Bpe, MaskedText, sotu};
use reprop_models::{LanguageModel, RevRobertaConfig};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::options::{Global, ModelChanges, TrainOptions};

use super::pipeline::PipelineSettings;
use super::recipe::Recipe;
use super::settings::Settings;

/// The name under which a run keeps its vocabulary.
const VOCABULARY: &str = "tokenizer.json";
/// One part in so many of the text is for testing.
const TEST_SHARE: usize = 10;

/// Everything that a run's result depends on, beside the text itself and its vocabulary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextSettings {
    #[serde(flatten)]
    pub run: Settings,
    pub sequence: usize,
}

/// Text to learn from and to be judged by.
pub struct TextSplit {
    pub train: MaskedText,
    pub test: MaskedText,
}

/// The text that the command line names.
fn read(data: &str, from: Option<&Path>) -> Result<String, Failure> {
    let embedded = || {
        let text = sotu();
        text.tokens.iter().map(|&token| char::from(text.symbols[token as usize])).collect()
    };
    match (data, from) {
        ("sotu", None) => Ok(embedded()),
        ("text", Some(path)) if path == Path::new("sotu") && !path.exists() => Ok(embedded()),
        ("text", Some(path)) => Ok(fs::read_to_string(path)
            .with_context(|| format!("cannot read {} as text in UTF-8", path.display()))?),
        ("text", None) => {
            Err(Failure::usage("the data set `text` is a file, and none is named").hint("add --from FILE"))
        }
        ("sotu", Some(_)) => {
            Err(Failure::usage("sotu is embedded and taken from no file").hint("use --data text"))
        }
        (other, _) => Err(Failure::usage(format!("the data set `{other}` is not text"))
            .hint("choose sotu, or text with --from FILE")),
    }
}

impl TextSettings {
    /// The settings, the vocabulary and the text that the command line asks for.
    pub fn new(global: &Global, options: &TrainOptions) -> Result<(Self, Bpe, TextSplit), Failure> {
        let text = read(&options.data, options.from.as_deref())?;
        let bpe = match &options.tokenizer {
            Some(path) => Bpe::load(path)?,
            None => Bpe::train(&text, options.vocabulary)?,
        };
        let split = TextSplit::new(&text, options.sequence, &bpe)?;
        let mut run = Settings::new(global, options, Recipe::chosen(options)?, split.train.len());
        run.pipeline = PipelineSettings::new(&options.pipeline);
        run.check_stages()?;
        if run.recipe.ema.is_some() {
            return Err(
                Failure::usage("weights are averaged in runs on images alone").hint("leave --ema out")
            );
        }
        Ok((Self { run, sequence: options.sequence }, bpe, split))
    }

    /// Those of the run in `folder`.
    pub fn load(folder: &Path) -> Result<(Self, Bpe, TextSplit), Failure> {
        let path = Settings::path(folder);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let settings: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        let bpe = Bpe::load(&folder.join(VOCABULARY))?;
        let text = read(&settings.run.data, settings.run.from.as_deref())?;
        let split = TextSplit::new(&text, settings.sequence, &bpe)?;
        Ok((settings, bpe, split))
    }

    /// Writes settings and vocabulary into the folder of a run.
    pub fn save(&self, folder: &Path, bpe: &Bpe) -> Result<(), Failure> {
        crate::whole_file::write_whole(&Settings::path(folder), &serde_json::to_vec_pretty(self)?)?;
        Ok(bpe.save(&folder.join(VOCABULARY))?)
    }

    /// The network, for the vocabulary that there is.
    pub fn model(&self, bpe: &Bpe) -> Result<RevRobertaConfig, Failure> {
        let Settings { image, patch, classes, width, dropout, drop_path, depth, ref model, .. } = self.run;
        let changes = ModelChanges { image, patch, classes, width, dropout, drop_path }.changes(depth);
        let named = LanguageModel::by_name(model)
            .ok_or_else(|| Failure::usage(format!("there is no network of text called `{model}`")))?;
        let mut changes = changes;
        changes.length = Some(self.sequence);
        changes.vocabulary = Some(bpe.len());
        let changed = named.change(&changes);
        changed.check().map_err(|sentence| Failure::usage(format!("{model}: {sentence}")))?;
        let LanguageModel::RevRoberta(config) = changed;
        // Stages share no parameters.
        Ok(config.with_tied(self.run.pipeline.is_none()))
    }
}

impl TextSplit {
    fn new(text: &str, sequence: usize, bpe: &Bpe) -> Result<Self, Failure> {
        let mut train = bpe.encode(text)?;
        let test = train.split_off(train.len() - train.len() / TEST_SHARE);
        let part = |tokens, name: &str| {
            MaskedText::new(tokens, sequence, bpe)
                .map_err(|error| Failure::new(format!("the part for {name}: {error}")))
                .map_err(|failure| failure.hint("give more text, or a shorter --sequence"))
        };
        Ok(Self { train: part(train, "training")?, test: part(test, "testing")? })
    }
}
