// The live view of a fleet: its sections, and how they share the lines of a terminal.

import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import {
  type FleetPicture,
  renderWatch,
  type WatchFrame,
} from "../../../../services/cli/rendering/operations/watch.ts";
import { createView } from "../../../../services/cli/rendering/terminal/view.ts";
import type { ListedTask } from "../../../../shared/protocol/task.ts";
import { NOW, view } from "./view.ts";

const at = (msAgo: number): string => new Date(NOW - msAgo).toISOString();

const task = (id: string): ListedTask =>
  ({
    task_id: id,
    state: "active",
    owner: "coder-1",
    phase: "testing",
    progress_percent: 40,
    updated_at: at(5_000),
    created_at: at(60_000),
  }) as ListedTask;

const tasks = (count: number) => Array.from({ length: count }, (_, i) => task(`task-${i}`));

const picture = (more: Partial<FleetPicture> = {}): FleetPicture => ({
  at: at(0),
  status: {
    version: "1.2.3",
    store: { engine: "lmdb", ok: true, detail: "" },
    bus: { ok: true, detail: "", server_version: "2.15.1" },
    index: { state: "ready" } as unknown as FleetPicture["status"]["index"],
    outbox: { depth: 0, oldest_ms: 0 },
    counts: { tasks: 7, checkpoints: 30, events: 50 },
    uptime_ms: 1_000,
  },
  alerts: [],
  tasks: [],
  handoffs: [],
  agents: [],
  listening_since: at(60_000),
  ...more,
});

const FRAME: WatchFrame = { url: "nats://127.0.0.1:4222", fleet: "fleet", problem: null };
const agents = (count: number): FleetPicture["agents"] =>
  Array.from({ length: count }, (_, i) => ({
    agent_id: `coder-${i}`,
    agent_type: "implementation",
    task_id: `task-${i}`,
    fence: 1,
    owner: true,
    state: "working" as const,
    step_deadline: null,
    session_id: null,
    host: "build-3",
    pid: 1,
    first_beat_at: at(60_000),
    last_beat_at: at(1_000),
  }));

describe("the live view", () => {
  test("has the fleet in its first line, and a table for each list that is not empty", () => {
    expect(renderWatch(picture({ tasks: tasks(1) }), FRAME, view)).toEqual([
      "Fleet 1.2.3 at nats://127.0.0.1:4222  store ok  bus ok  7 tasks, 30 checkpoints",
      "",
      "Open tasks (1)",
      "TASK    STATE   OWNER    PHASE    PROGRESS  UPDATED  AGE",
      "task-0  active  coder-1  testing  40%       5s ago   1m ago",
      "",
    ]);
    expect(renderWatch(picture(), FRAME, view).at(-1)).toBe(
      "No open tasks, handoffs or alerts, and no agents.",
    );
  });

  test.each([8, 12, 16, 24, 50])("fits %i lines, and names what it leaves out", (height) => {
    const frame = { ...FRAME, height, help: "q ends" };
    const lines = renderWatch(picture({ tasks: tasks(40), agents: agents(3) }), frame, view);
    expect(lines.length).toBeLessThanOrEqual(height);
    expect(lines.at(-1)).toBe("q ends");
    expect(lines).toContain("Open tasks (40)");
    const shown = lines.filter((line) => line.startsWith("task-")).length;
    expect(lines).toContain(`… and ${40 - shown} more`);
  });

  test("a short list takes no more lines than it needs", () => {
    const frame = { ...FRAME, height: 24, help: "q ends" };
    const lines = renderWatch(picture({ tasks: tasks(40), agents: agents(1) }), frame, view);
    expect(lines).toHaveLength(24);
    expect(lines.filter((line) => line.startsWith("coder-0"))).toHaveLength(1);
  });

  test("no line is wider than the terminal, and the owner stays", () => {
    const narrow = createView(
      { write: () => {}, isTTY: true, columns: 80 },
      { color: false, env: {}, now: NOW },
    );
    const lines = renderWatch(picture({ tasks: [task("t".repeat(60))], agents: agents(2) }), FRAME, narrow);
    expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
    expect(lines.find((line) => line.startsWith("ttt"))).toContain("coder-1");
  });

  test("a fleet that does not answer, a fault of the bus and a full disk are in red lines", () => {
    const finding = { stream: "FLEET_EVENTS", kind: "missing", blocks: true };
    const disk = { disk_of: ["store"], state: "full" };
    const { status } = picture();
    const troubled = { ...status, findings: [finding], disks: [disk] } as unknown as FleetPicture["status"];
    const lines = renderWatch(
      picture({ at: at(12_000), status: troubled }),
      { ...FRAME, problem: "no answer in time" },
      view,
    );
    expect(lines.slice(1, 3)).toEqual([
      "No answer since 12s: no answer in time",
      "1 fault of the bus and 1 disk with little room; `fleet status` names them",
    ]);
  });

  test("control characters of a task's name are not printed", () => {
    const text = renderWatch(picture({ tasks: [task("a\u001b[2Jb")] }), FRAME, view).join("\n");
    expect(text).not.toContain("\u001b");
  });
});
