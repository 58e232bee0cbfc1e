// Writes a trace (`ptrace/1`) from C++17: copy this header beside your port. Row-major float32 values.
//
//     ptrace::Trace trace;
//     trace.put("block.fc1.weight", "param", {64, 16}, weight);   // what the port computes with
//     trace.put("block.fc1", "out", {2, 6, 64}, x);                // after every layer
//     trace.save("port.safetensors");
#pragma once
#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptrace {

struct Tensor {
    std::vector<size_t> shape;
    std::vector<float> data;
};

class Trace {
  public:
    std::string step = "-";  // inside a loop "denoise:07"

    void put(const std::string& path, const std::string& slot, const std::vector<size_t>& shape, const float* data) {
        std::string number = std::to_string(count_++);
        number.insert(0, number.size() < 6 ? 6 - number.size() : 0, '0');
        size_t elements = 1;
        std::string extents;
        for (size_t extent : shape) {
            elements *= extent;
            extents += (extents.empty() ? "" : ",") + std::to_string(extent);
        }
        const size_t begin = bytes_.size();
        const char* raw = reinterpret_cast<const char*>(data);
        bytes_.insert(bytes_.end(), raw, raw + elements * sizeof(float));
        header_ += (header_.empty() ? "{\"" : ",\"") + number + "|" + step + "|" + path + "|" + slot +
                   "\":{\"dtype\":\"F32\",\"shape\":[" + extents + "],\"data_offsets\":[" + std::to_string(begin) + "," +
                   std::to_string(bytes_.size()) + "]}";
    }

    void put(const std::string& path, const std::string& slot, const Tensor& x) { put(path, slot, x.shape, x.data.data()); }

    void save(const std::string& file) const {
        std::string header = header_ + "}";
        header.append((8 - header.size() % 8) % 8, ' ');
        const uint64_t length = header.size();
        std::ofstream out(file, std::ios::binary);
        for (int byte = 0; byte < 8; ++byte) out.put(static_cast<char>(length >> (8 * byte)));  // little-endian
        out << header;
        out.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
        if (!out) throw std::runtime_error("cannot write " + file);
    }

  private:
    size_t count_ = 0;
    std::string header_;
    std::vector<char> bytes_;
};

// One float32 tensor of a safetensors file, for ports that have no reader of their own.
inline Tensor load(const std::string& file, const std::string& name) {
    std::ifstream in(file, std::ios::binary);
    unsigned char raw[8] = {};
    in.read(reinterpret_cast<char*>(raw), 8);
    uint64_t length = 0;
    for (int byte = 7; byte >= 0; --byte) length = length << 8 | raw[byte];
    std::string header(in && length < (1u << 27) ? length : 0, ' ');
    in.read(header.data(), static_cast<std::streamsize>(header.size()));
    const size_t at = header.find("\"" + name + "\":");
    if (!in || at == std::string::npos) throw std::runtime_error("no tensor " + name + " in " + file);
    const auto numbers = [&](const char* key) {
        std::vector<size_t> found;
        size_t place = header.find('[', header.find(key, at));
        for (const size_t end = header.find(']', place); place < end; place = header.find_first_of(",]", place + 1))
            if (header[place + 1] != ']') found.push_back(std::stoull(header.substr(place + 1)));
        return found;
    };
    const std::vector<size_t> offsets = numbers("\"data_offsets\"");
    Tensor tensor{numbers("\"shape\""), std::vector<float>((offsets.at(1) - offsets.at(0)) / sizeof(float))};
    in.seekg(static_cast<std::streamoff>(8 + length + offsets[0]));
    in.read(reinterpret_cast<char*>(tensor.data.data()), static_cast<std::streamsize>(offsets[1] - offsets[0]));
    if (!in) throw std::runtime_error(file + " is cut off");
    return tensor;
}

}  // namespace ptrace
