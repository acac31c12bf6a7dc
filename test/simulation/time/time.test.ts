import { expect, test } from "vitest";
import { runSimulated } from "../program.ts";

const SAMPLE = new URL("./sample.program.ts", import.meta.url);
const STUCK = new URL("./stuck.program.ts", import.meta.url);

async function histories(...seeds: number[]): Promise<Record<string, string[]>> {
  return JSON.parse(await runSimulated(SAMPLE, seeds.map(String))) as Record<string, string[]>;
}

test("one seed gives one history, after other seeds and in another process too, and two seeds differ", async () => {
  const [first, second] = await Promise.all([histories(1, 2), histories(3, 2, 1)]);
  expect(first[1]!.length).toBeGreaterThan(100);
  expect(second[1]).toEqual(first[1]);
  expect(second[2]).toEqual(first[2]);
  expect(first[2]).not.toEqual(first[1]);
});

test("a killed process does nothing more, and an hour passes at once", async () => {
  const history = (await histories(5))[5]!;
  const after = history.slice(history.indexOf("killed") + 1);
  expect(history.filter((line) => line.includes(" a ")).length).toBeGreaterThan(5);
  expect(after.filter((line) => line.includes(" a "))).toEqual([]);
  expect(after.filter((line) => line.includes(" b ")).length).toBeGreaterThan(5);
  expect(Number.parseFloat(after.at(-1)!)).toBeGreaterThanOrEqual(3_600_000);
});

test("a call of the real machine ends the simulation, even where its error is caught", async () => {
  const { forbidden } = JSON.parse(await runSimulated(SAMPLE, ["forbidden"])) as {
    forbidden: Record<string, string>;
  };
  expect(forbidden).toEqual({
    worker: "new Worker was called within a simulation",
    socket: "net.Socket.connect was called within a simulation",
    write: "fs.promises.writeFile was called within a simulation",
    read: "fs.promises.readFile was called within a simulation",
    digest: "crypto.subtle.digest was called within a simulation",
    import: expect.stringMatching(/^import of file:.*program\.ts was called within a simulation$/),
  });
});

test.each(["loop", "promises", "timers"])(
  "a simulation that does not end (%s) is killed, with its seed, timers, last lines and stack",
  async (way) => {
    const error = await runSimulated(STUCK, [way]).then(
      () => undefined,
      (caught: { readonly signal: string; readonly stderr: string }) => caught,
    );
    expect(error?.signal).toBe("SIGKILL");
    expect(error?.stderr).toContain("a simulation took too much time of the processor\nseed 7 at ");
    expect(error?.stderr).toMatch(/pending timers\n( {2}in .* ms: outside\n)? {2}in \d+\.\d{3} ms: waiter\n/);
    expect(error?.stderr).toContain("last lines\n  the last step\nthe main thread\n  at ");
    if (way === "loop") expect(error?.stderr).toMatch(/ {2}at loop \(file:.*stuck\.program\.ts:\d+\)/);
  },
);
