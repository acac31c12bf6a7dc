// The progress display of the setup: one animated line on a terminal, otherwise plain lines.

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** Shows jobs on a stream, with or without a terminal. */
export function startProgress(stream) {
  const running = new Map();
  const live = stream.isTTY && process.env.TERM !== "dumb";
  const seconds = (since) => `${Math.round((Date.now() - since) / 1000)} s`;
  let frame = 0;

  const clear = () => live && stream.write("\r\x1b[K");
  const draw = () => {
    if (!live || running.size === 0) return;
    const line = [...running].map(([name, since]) => `${name} ${seconds(since)}`).join(" · ");
    stream.write(`\r\x1b[K${FRAMES[frame++ % FRAMES.length]} ${line}`.slice(0, (stream.columns || 80) + 4));
  };
  const say = (text) => {
    clear();
    stream.write(`fleet setup: ${text}\n`);
    draw();
  };
  const timer = live ? setInterval(draw, 100) : undefined;

  return {
    say,
    /** Runs the work, and prints its start and its duration. The caller reports a failure. */
    async job(name, work) {
      const since = Date.now();
      if (!live) say(`${name}: fetching`);
      running.set(name, since);
      try {
        await work();
        running.delete(name);
        say(`${name}: ready after ${seconds(since)}`);
      } finally {
        running.delete(name);
      }
    },
    close() {
      clearInterval(timer);
      clear();
    },
  };
}
