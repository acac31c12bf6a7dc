import { expect, test } from "vitest";
import { runSimulated } from "../program.ts";

const SAMPLE = new URL("./sample.program.ts", import.meta.url);

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
