/** Agents as processes of their own, which do as they are told and can be killed and stopped; see `test/fleet/recovery/recoverable.program.ts`. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Recoverable } from "../../fleet/recovery/recoverable.program.ts";
import { projectRoot } from "./fleet.ts";

export interface Line {
  readonly began?: { task: string; fence: number; resumedFrom: string | null; recovery: object | null };
  readonly done?: string;
  readonly waiting?: true;
  readonly outcome?: string;
  readonly failed?: string;
}

export interface TestAgent {
  readonly lines: Line[];
  /** Resolves with the line of that kind, the last of `count`; rejects when the agent ends before. */
  said(kind: keyof Line, count?: number): Promise<Line>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<number | null>;
}

export class TestAgents {
  readonly #url: string;
  readonly #children = new Set<ChildProcess>();

  constructor(url: string) {
    this.#url = url;
  }

  start(told: Omit<Recoverable, "url">): TestAgent {
    const argument = JSON.stringify({ url: this.#url, ...told });
    const child = spawn(process.execPath, ["test/fleet/recovery/recoverable.program.ts", argument], {
      cwd: projectRoot,
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#children.add(child);
    const lines: Line[] = [];
    const reader = createInterface({ input: child.stdout });
    reader.on("line", (text) => lines.push(JSON.parse(text) as Line));
    const closed = once(reader, "close");
    return {
      lines,
      async said(kind, count = 1) {
        const said = (): Line[] => lines.filter((line) => kind in line);
        while (said().length < count) {
          const isClosed = await Promise.race([
            once(reader, "line").then(() => false),
            closed.then(() => true),
          ]);
          if (isClosed && said().length < count)
            throw new Error(`${told.agentId} ended before it said ${kind}: ${JSON.stringify(lines)}`);
        }
        return said()[count - 1] as Line;
      },
      signal: (name) => void child.kill(name),
      ended: once(child, "exit").then(([code]) => code as number | null),
    };
  }

  /** SIGKILL of all. */
  kill(): void {
    for (const child of this.#children) child.kill("SIGKILL");
    this.#children.clear();
  }
}
