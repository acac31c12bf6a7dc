import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { serviceNodeFlags } from "../../../shared/runtime/node-flags.ts";

const text = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

test("the start script and the image start Node with the same flags as everybody else", () => {
  const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };
  expect(scripts.start).toBe(`node ${serviceNodeFlags.join(" ")} services/standalone/main.ts`);
  const command = JSON.stringify(["node", ...serviceNodeFlags, "services/standalone/main.ts"]).replaceAll(
    ",",
    ", ",
  );
  expect(text("deploy/Dockerfile")).toContain(`CMD ${command}`);
});
