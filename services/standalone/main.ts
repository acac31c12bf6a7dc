/** `npm start`: the whole fleet in one process. */
import { relative } from "node:path";
import { enableCompileCache } from "../../deploy/local/compile-cache.mjs";

const begun = performance.now();

// Only modules that are loaded after this call are cached.
enableCompileCache();
const { runMain } = await import("../../shared/runtime/process/main.ts");
const { readConfig } = await import("../../shared/runtime/settings/config.ts");
const { quietOnTerminal, standaloneFields } = await import("./config.ts");
const { start } = await import("./standalone.ts");

await runMain({
  service: "fleet",
  stopTimeoutMs: 25_000,
  start: async (context) => {
    const config = readConfig(standaloneFields, quietOnTerminal(process.env));
    const fleet = await start({ ...context, config });
    const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
    process.stdout.write(
      `\nFleet is up (${seconds} s).\n\n` +
        `  bus         ${fleet.busUrl}\n` +
        `  operations  ${fleet.opsUrl}/readyz, ${fleet.opsUrl}/metrics\n` +
        `  data        ${relative(process.cwd(), fleet.home) || "."}/\n\n` +
        "In another terminal: npx fleet status. Ctrl-C stops it and keeps everything.\n\n",
    );
    return fleet.stop;
  },
});
