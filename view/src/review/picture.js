// The picture of a sound: its waveform above its spectrogram up to 8 kHz.
const RATE = 16000;
const WINDOW = 512;
const DECIBELS = 70;

// The samples of the first channel at 16 kHz.
const samplesOf = async (bytes) => {
  const decoder = new OfflineAudioContext(1, 1, RATE);
  return (await decoder.decodeAudioData(bytes)).getChannelData(0);
};

// The fast Fourier transform in place; lengths are powers of two.
const transform = (real, imaginary) => {
  const count = real.length;
  for (let at = 1, other = 0; at < count; at += 1) {
    let bit = count >> 1;
    for (; other & bit; bit >>= 1) other ^= bit;
    other ^= bit;
    if (at < other) {
      [real[at], real[other]] = [real[other], real[at]];
      [imaginary[at], imaginary[other]] = [imaginary[other], imaginary[at]];
    }
  }
  for (let size = 2; size <= count; size *= 2) {
    const half = size / 2;
    for (let step = 0; step < half; step += 1) {
      const turn = (-2 * Math.PI * step) / size;
      const [cosine, sine] = [Math.cos(turn), Math.sin(turn)];
      for (let at = step; at < count; at += size) {
        const far = at + half;
        const re = real[far] * cosine - imaginary[far] * sine;
        const im = real[far] * sine + imaginary[far] * cosine;
        [real[far], imaginary[far]] = [real[at] - re, imaginary[at] - im];
        real[at] += re;
        imaginary[at] += im;
      }
    }
  }
};

// The power in decibels of the window around a sample, by frequency.
const spectrum = (samples, middle) => {
  const [real, imaginary] = [new Float64Array(WINDOW), new Float64Array(WINDOW)];
  for (let at = 0; at < WINDOW; at += 1) {
    const hann = 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / WINDOW);
    real[at] = (samples[middle - WINDOW / 2 + at] ?? 0) * hann;
  }
  transform(real, imaginary);
  const power = (at) => 10 * Math.log10(real[at] ** 2 + imaginary[at] ** 2 + 1e-12);
  return Array.from({ length: WINDOW / 2 }, (_, at) => power(at));
};

const drawWave = (pen, samples, width, height) => {
  const middle = height / 2;
  const loudest = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 1e-4);
  for (let x = 0; x < width; x += 1) {
    const [from, to] = [x, x + 1].map((at) => Math.floor((at * samples.length) / width));
    let [low, high] = [0, 0];
    for (let at = from; at < Math.max(to, from + 1); at += 1) {
      low = Math.min(low, samples[at] ?? 0);
      high = Math.max(high, samples[at] ?? 0);
    }
    const [top, end] = [high, low].map((value) => middle - (value / loudest) * (middle - 2));
    pen.fillRect(x, top, 1, Math.max(1, end - top));
  }
};

const drawSpectrum = (pen, samples, width, top, height, [red, green, blue]) => {
  const columns = Array.from({ length: width }, (_, x) =>
    spectrum(samples, Math.floor(((x + 0.5) * samples.length) / width)));
  const loudest = columns.reduce((most, column) => Math.max(most, ...column), -120);
  const image = pen.createImageData(width, height);
  columns.forEach((column, x) => {
    for (let y = 0; y < height; y += 1) {
      const power = column[Math.floor(((height - 1 - y) * column.length) / height)];
      const strength = Math.max(0, 1 - (loudest - power) / DECIBELS);
      image.data.set([red, green, blue, 255 * strength ** 1.5], 4 * (y * width + x));
    }
  });
  pen.putImageData(image, 0, top);
};

const draw = (canvas, samples) => {
  canvas.width = Math.max(200, Math.round(canvas.clientWidth));
  const { width, height } = canvas;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue("color");
  const ink = pen.fillStyle;
  const colour = [1, 3, 5].map((at) => parseInt(ink.slice(at, at + 2), 16) || 0);
  const wave = Math.round(height / 3);
  drawWave(pen, samples, width, wave);
  drawSpectrum(pen, samples, width, wave, height - wave, colour);
};
