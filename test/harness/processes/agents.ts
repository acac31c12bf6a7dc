/** Scripted agents as separate processes that can be killed and stopped; see `agent.program.ts`. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { projectRoot } from "../project-root.ts";
import type { AgentScript } from "./agent.program.ts";

interface Line {
  readonly began?: { task: string; fence: number; resumedFrom: string | null; recovery: object | null };
  readonly done?: string;
  readonly waiting?: true;
  readonly outcome?: string;
  readonly failed?: string;
}

export interface TestAgent {
  readonly lines: Line[];
  /** Resolves with the `count`-th line of that kind; rejects when the agent ends before. */
  line(kind: keyof Line, count?: number): Promise<Line>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<number | null>;
}

export class TestAgents {
  readonly #url: string;
  readonly #home: string | undefined;
  readonly #children = new Set<ChildProcess>();

  /** `home`: of a fleet that requires credentials. */
  constructor(url: string, home?: string) {
    this.#url = url;
    this.#home = home;
  }

  start(script: Omit<AgentScript, "url">): TestAgent {
    const argument = JSON.stringify({ url: this.#url, ...script });
    const child = spawn(process.execPath, ["test/harness/processes/agent.program.ts", argument], {
      cwd: projectRoot,
      env: { ...process.env, ...(this.#home !== undefined && { FLEET_HOME: this.#home }) },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#children.add(child);
    const lines: Line[] = [];
    const reader = createInterface({ input: child.stdout });
    reader.on("line", (text) => lines.push(JSON.parse(text) as Line));
    const closed = once(reader, "close");
    return {
      lines,
      async line(kind, count = 1) {
        const found = (): Line[] => lines.filter((line) => kind in line);
        while (found().length < count) {
          const isClosed = await Promise.race([
            once(reader, "line").then(() => false),
            closed.then(() => true),
          ]);
          if (isClosed && found().length < count)
            throw new Error(`${script.agentId} ended before its line ${kind}: ${JSON.stringify(lines)}`);
        }
        return found()[count - 1] as Line;
      },
      signal: (name) => void child.kill(name),
      ended: once(child, "exit").then(([code]) => code as number | null),
    };
  }

  /** Kills all agents with SIGKILL. */
  kill(): void {
    for (const child of this.#children) child.kill("SIGKILL");
    this.#children.clear();
  }
}
