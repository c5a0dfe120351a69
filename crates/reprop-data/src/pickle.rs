//! Pickles: values that Python programs saved, read without running any of their code.
//!
//! A pickle is a program for a machine with a stack (PEP 3154, `pickletools` of Python's library). Lists, dictionaries,
//! numbers, texts and bytes are values; a call of a named function on arguments is kept as a [`Value::Call`], for the reader
//! to know or to refuse. Nothing is ever called.

use std::collections::HashMap;
use std::sync::Arc;

/// What a pickle holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list, tuple or set.
    List(Vec<Value>),
    /// Pairs of keys and values, in order.
    Dict(Vec<(Value, Value)>),
    /// A function or class by its module and name.
    Global(String),
    /// A function, its arguments, and the state that its result was given afterwards.
    Call(Box<Value>, Box<Value>, Option<Box<Value>>),
    /// Something outside of the pickle.
    Persistent(Box<Value>),
}

impl Value {
    /// The value under a text key of a dictionary.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Dict(pairs) = self else { return None };
        pairs.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
    }

    /// The items of a list or tuple.
    pub fn items(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    /// A whole number.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// Text, also where an old pickle has it as bytes.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Arguments and state of a call of the function `name`.
    pub fn call(&self, name: &str) -> Option<(&[Self], Option<&Self>)> {
        let Self::Call(function, arguments, state) = self else { return None };
        let is_it = matches!(&**function, Self::Global(found) if found == name);
        is_it.then(|| (arguments.items().unwrap_or(&[]), state.as_deref()))
    }
}

/// Reads the pickle in `bytes`.
///
/// ```
/// use reprop_data::pickle::{Value, read};
///
/// // `pickle.dumps({"a": [1, 2]}, 2)`
/// let bytes = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01]q\x02(K\x01K\x02es.";
/// let value = read(bytes)?;
/// assert_eq!(value.get("a").and_then(Value::items), Some(&[Value::Int(1), Value::Int(2)][..]));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// A sentence: where it ends too early, or what it has that is not read here.
pub fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut machine = Machine { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    while let Some(code) = machine.next()? {
        machine.run(code)?;
    }
    machine.pop()
}

struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    /// Copies: what is changed after it was noted is noted again by nobody that writes numbers and weights.
    memo: HashMap<u64, Value>,
}

impl<'b> Machine<'b> {
    /// The next code, unless it is the last.
    fn next(&mut self) -> Result<Option<u8>, String> {
        let code = self.take(1)?[0];
        Ok((code != b'.').then_some(code))
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], String> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            format!("the pickle ends after {} bytes where {count} more are due", self.bytes.len() - self.at)
        })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A number of `count` bytes, the lowest first.
    fn number(&mut self, count: usize) -> Result<u64, String> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or("a line of the pickle has no end")?;
        self.at += end + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn text(&mut self, count: u64) -> Result<Value, String> {
        let bytes = self.take(usize::try_from(count).map_err(|error| error.to_string())?)?;
        Ok(Value::Text(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn raw(&mut self, count: u64) -> Result<Value, String> {
        Ok(Value::Bytes(self.take(usize::try_from(count).map_err(|error| error.to_string())?)?.into()))
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| format!("nothing is left on the pickle's stack at byte {}", self.at))
    }

    fn last(&mut self) -> Result<&mut Value, String> {
        self.stack.last_mut().ok_or_else(|| "nothing is on the pickle's stack".to_owned())
    }

    fn marked(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.marks.pop().ok_or("the pickle has no mark where one is due")?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn tuple(&mut self, count: usize) -> Result<(), String> {
        let first = self.stack.len().checked_sub(count).ok_or("a tuple is longer than the pickle's stack")?;
        let items = self.stack.split_off(first);
        self.stack.push(Value::List(items));
        Ok(())
    }

    fn append(&mut self, items: Vec<Value>) -> Result<(), String> {
        match self.last()? {
            Value::List(list) => list.extend(items),
            other => return Err(format!("items are added to what is no list: {other:?}")),
        }
        Ok(())
    }

    fn set(&mut self, items: Vec<Value>) -> Result<(), String> {
        let mut items = items.into_iter();
        let pairs = std::iter::from_fn(|| Some((items.next()?, items.next()?)));
        match self.last()? {
            Value::Dict(dict) => dict.extend(pairs),
            // `OrderedDict()`, whose items follow.
            call @ Value::Call(..) => *call = Value::Dict(pairs.collect()),
            other => return Err(format!("items are set in what is no dictionary: {other:?}")),
        }
        Ok(())
    }

    fn note(&mut self, key: u64) -> Result<(), String> {
        let value = self.last()?.clone();
        self.memo.insert(key, value);
        Ok(())
    }

    fn recall(&mut self, key: u64) -> Result<(), String> {
        let value =
            self.memo.get(&key).cloned().ok_or_else(|| format!("the pickle noted nothing as {key}"))?;
        self.stack.push(value);
        Ok(())
    }

    fn call(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let latin = matches!(&function, Value::Global(name) if name == "_codecs encode");
        // How Python 3 writes bytes for Python 2.
        let value = match (latin, arguments.items()) {
            (true, Some([Value::Text(text), ..])) => Value::Bytes(text.chars().map(|c| c as u8).collect()),
            _ => Value::Call(Box::new(function), Box::new(arguments), None),
        };
        self.stack.push(value);
        Ok(())
    }

    fn build(&mut self) -> Result<(), String> {
        let state = self.pop()?;
        match self.last()? {
            Value::Call(_, _, kept) => *kept = Some(Box::new(state)),
            // Attributes of a dictionary: what it holds is not among them.
            Value::Dict(_) => {}
            other => return Err(format!("a state is given to what has none: {other:?}")),
        }
        Ok(())
    }

    fn run(&mut self, code: u8) -> Result<(), String> {
        let value = match code {
            // Protocol, frame: lengths that the machine does not need.
            0x80 => return self.take(1).map(drop),
            0x95 => return self.take(8).map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            b'0' => return self.pop().map(drop),
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            0x8a => self.long()?,
            b'G' => Value::Float(f64::from_bits(self.number(8)?.swap_bytes())),
            0x8c => {
                let count = self.number(1)?;
                self.text(count)?
            }
            b'X' => {
                let count = self.number(4)?;
                self.text(count)?
            }
            0x8d => {
                let count = self.number(8)?;
                self.text(count)?
            }
            b'C' | b'U' => {
                let count = self.number(1)?;
                self.raw(count)?
            }
            b'B' | b'T' => {
                let count = self.number(4)?;
                self.raw(count)?
            }
            0x8e => {
                let count = self.number(8)?;
                self.raw(count)?
            }
            b']' | b')' | 0x8f => Value::List(Vec::new()),
            b'}' => Value::Dict(Vec::new()),
            b't' | b'l' => Value::List(self.marked()?),
            0x85..=0x87 => return self.tuple(usize::from(code - 0x84)),
            b'a' => {
                let item = self.pop()?;
                return self.append(vec![item]);
            }
            b'e' | 0x90 => {
                let items = self.marked()?;
                return self.append(items);
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                return self.set(vec![key, value]);
            }
            b'u' => {
                let items = self.marked()?;
                return self.set(items);
            }
            b'c' => Value::Global(format!("{} {}", self.line()?, self.line()?)),
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                Value::Global(format!("{} {}", module.text().unwrap_or(""), name.text().unwrap_or("")))
            }
            b'R' | 0x81 => return self.call(),
            b'b' => return self.build(),
            b'Q' => Value::Persistent(Box::new(self.pop()?)),
            b'q' => {
                let key = self.number(1)?;
                return self.note(key);
            }
            b'r' => {
                let key = self.number(4)?;
                return self.note(key);
            }
            0x94 => return self.note(self.memo.len() as u64),
            b'h' => {
                let key = self.number(1)?;
                return self.recall(key);
            }
            b'j' => {
                let key = self.number(4)?;
                return self.recall(key);
            }
            other => {
                return Err(format!(
                    "code {other:#04x} of the pickle at byte {} is not read here",
                    self.at - 1
                ));
            }
        };
        self.stack.push(value);
        Ok(())
    }

    /// A whole number of any length, of which 64 bits are read.
    fn long(&mut self) -> Result<Value, String> {
        let count = self.number(1)? as usize;
        let bytes = self.take(count)?;
        if count > 8 {
            return Err(format!("a number of {count} bytes is too long"));
        }
        let sign = if bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
        let mut whole = [sign; 8];
        whole[..count].copy_from_slice(bytes);
        Ok(Value::Int(i64::from_le_bytes(whole)))
    }
}
