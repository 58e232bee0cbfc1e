// The tiny UNet's feed-forward block in C++. g++ -std=c++17 -O2 port.cpp -o port && ./port tiny.safetensors OUT
#include <cmath>

#include "ptrace.hpp"

using ptrace::Tensor;

ptrace::Trace trace;

Tensor weight(const char* file, const std::string& name) {
    Tensor x = ptrace::load(file, "mid.ff." + name);
    trace.put("cpp." + name, "param", x);
    return x;
}

Tensor linear(const char* file, const std::string& path, const Tensor& x) {
    const Tensor w = weight(file, path + ".weight"), b = weight(file, path + ".bias");
    const size_t wide = w.shape[1], out = w.shape[0], rows = x.data.size() / wide;
    Tensor y{{x.shape[0], x.shape[1], out}, std::vector<float>(rows * out)};
    for (size_t r = 0; r < rows; ++r)
        for (size_t o = 0; o < out; ++o) {
            float sum = b.data[o];
            for (size_t i = 0; i < wide; ++i) sum += x.data[r * wide + i] * w.data[o * wide + i];
            y.data[r * out + o] = sum;
        }
    trace.put("cpp." + path, "out", y);
    return y;
}

Tensor layer_norm(const char* file, const std::string& path, const Tensor& x, float eps) {
    const Tensor w = weight(file, path + ".weight"), b = weight(file, path + ".bias");
    const size_t wide = w.shape[0];
    Tensor y = x;
    for (size_t r = 0; r < x.data.size(); r += wide) {
        float mean = 0, variance = 0;
        for (size_t i = 0; i < wide; ++i) mean += x.data[r + i] / wide;
        for (size_t i = 0; i < wide; ++i) variance += (x.data[r + i] - mean) * (x.data[r + i] - mean) / wide;
        for (size_t i = 0; i < wide; ++i)
            y.data[r + i] = (x.data[r + i] - mean) / std::sqrt(variance + eps) * w.data[i] + b.data[i];
    }
    trace.put("cpp." + path, "out", y);
    return y;
}

int main(int, char** words) {
    const Tensor x = ptrace::load(words[1], "tokens");
    trace.put("cpp", "in.x", x);
    Tensor hidden = linear(words[1], "fc1", layer_norm(words[1], "norm", x, 1e-5f));
    for (float& v : hidden.data) v = v * 0.5f * (1 + std::erf(v * 0.70710678f));
    Tensor y = linear(words[1], "fc2", hidden);
    for (size_t i = 0; i < y.data.size(); ++i) y.data[i] += x.data[i];
    trace.put("cpp", "out", y);
    trace.save(words[2]);
}
