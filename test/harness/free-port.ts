/**
 * A port that was free a moment ago, for programs that must be given one. The system gives the ports of the usual ephemeral ranges to every
 * connection and to every program that asks for any port, and so it might give one of them away again before the program has it.
 */
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

const RANGE = { from: 20_000, to: 32_000 } as const;
const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(RANGE.from, RANGE.to);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
}

function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}
