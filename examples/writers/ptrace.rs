//! Writes a trace (`ptrace/1`) from Rust, with no crate: put `mod ptrace;` beside your port.
//!
//! From a Candle tensor: `trace.put("unet.conv_in", "out", x.dims(), &x.flatten_all()?.to_vec1::<f32>()?)`,
//! and for every weight of the `VarMap` or `VarBuilder`: `trace.put(name, "param", …)`.

use std::io::{Read, Seek, SeekFrom, Write};

pub struct Trace {
    /// "-", or inside a loop "denoise:07"
    pub step: String,
    count: usize,
    header: String,
    bytes: Vec<u8>,
}

impl Trace {
    pub fn new() -> Self {
        Trace { step: "-".into(), count: 0, header: String::new(), bytes: Vec::new() }
    }

    pub fn put(&mut self, path: &str, slot: &str, shape: &[usize], data: &[f32]) {
        let begin = self.bytes.len();
        self.bytes.extend(data.iter().flat_map(|x| x.to_le_bytes()));
        let comma = if self.header.is_empty() { "" } else { "," };
        let end = self.bytes.len();
        self.header += &format!(
            "{comma}\"{:06}|{}|{path}|{slot}\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}",
            self.count, self.step
        );
        self.count += 1;
    }

    pub fn save(&self, file: &str) -> std::io::Result<()> {
        let mut header = format!("{{{}}}", self.header);
        header += &" ".repeat((8 - header.len() % 8) % 8);
        let mut out = std::fs::File::create(file)?;
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        out.write_all(&self.bytes)
    }
}

/// Shape and values of one float32 tensor of a safetensors file, for ports that have no reader of their own.
pub fn load(file: &str, name: &str) -> std::io::Result<(Vec<usize>, Vec<f32>)> {
    let mut input = std::fs::File::open(file)?;
    let mut length = [0u8; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut header = vec![0u8; length as usize];
    input.read_exact(&mut header)?;
    let header = String::from_utf8_lossy(&header).into_owned();
    let at = header.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no tensor {} in {}", name, file));
    let numbers = |key: &str| -> Vec<usize> {
        let from = at + header[at..].find(key).unwrap();
        let open = from + header[from..].find('[').unwrap() + 1;
        let close = open + header[open..].find(']').unwrap();
        header[open..close].split(',').filter_map(|x| x.trim().parse().ok()).collect()
    };
    let (shape, offsets) = (numbers("\"shape\""), numbers("\"data_offsets\""));
    let mut raw = vec![0u8; offsets[1] - offsets[0]];
    input.seek(SeekFrom::Start(8 + length + offsets[0] as u64))?;
    input.read_exact(&mut raw)?;
    Ok((shape, raw.chunks(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()))
}
