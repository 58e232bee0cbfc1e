//! The tiny UNet's feed-forward block in Rust. rustc -O port.rs && ./port tiny.safetensors OUT
mod ptrace;

type Result<T> = std::io::Result<T>;

struct Port {
    file: String,
    trace: ptrace::Trace,
}

impl Port {
    fn weight(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f32>)> {
        let (shape, data) = ptrace::load(&self.file, &format!("mid.ff.{name}"))?;
        self.trace.put(&format!("rust.{name}"), "param", &shape, &data);
        Ok((shape, data))
    }

    fn linear(&mut self, path: &str, x: &[f32], rows: [usize; 2]) -> Result<Vec<f32>> {
        let (shape, w) = self.weight(&format!("{path}.weight"))?;
        let (_, b) = self.weight(&format!("{path}.bias"))?;
        let row = |r: &[f32], o: usize| b[o] + (0..shape[1]).map(|i| r[i] * w[o * shape[1] + i]).sum::<f32>();
        let y: Vec<f32> = x.chunks(shape[1]).flat_map(|r| (0..shape[0]).map(move |o| (r, o))).map(|(r, o)| row(r, o)).collect();
        self.trace.put(&format!("rust.{path}"), "out", &[rows[0], rows[1], shape[0]], &y);
        Ok(y)
    }

    fn layer_norm(&mut self, path: &str, x: &[f32], rows: [usize; 2], eps: f32) -> Result<Vec<f32>> {
        let (shape, w) = self.weight(&format!("{path}.weight"))?;
        let (_, b) = self.weight(&format!("{path}.bias"))?;
        let wide = shape[0];
        let mut y = Vec::with_capacity(x.len());
        for r in x.chunks(wide) {
            let mean = r.iter().sum::<f32>() / wide as f32;
            let variance = r.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / wide as f32;
            y.extend((0..wide).map(|i| (r[i] - mean) / (variance + eps).sqrt() * w[i] + b[i]));
        }
        self.trace.put(&format!("rust.{path}"), "out", &[rows[0], rows[1], wide], &y);
        Ok(y)
    }
}

/// Abramowitz and Stegun 7.1.26 is too coarse; this series and continued fraction are good to the last bits of f32.
fn erf(x: f64) -> f64 {
    let terms = (0..60).scan(x, |term, n| {
        let now = *term;
        *term *= -x * x / (n as f64 + 1.0);
        Some(now / (2.0 * n as f64 + 1.0))
    });
    if x.abs() > 3.5 { x.signum() } else { terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI }
}

fn gelu(x: f32) -> f32 {
    let x = x as f64;
    (0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let mut port = Port { file: words[1].clone(), trace: ptrace::Trace::new() };
    let (shape, x) = ptrace::load(&words[1], "tokens")?;
    let rows = [shape[0], shape[1]];
    port.trace.put("rust", "in.x", &shape, &x);
    let normed = port.layer_norm("norm", &x, rows, 1e-5)?;
    let hidden: Vec<f32> = port.linear("fc1", &normed, rows)?.into_iter().map(gelu).collect();
    let y: Vec<f32> = port.linear("fc2", &hidden, rows)?.iter().zip(&x).map(|(a, b)| a + b).collect();
    port.trace.put("rust", "out", &shape, &y);
    port.trace.save(&words[2])
}
