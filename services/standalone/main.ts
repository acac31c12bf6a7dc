/** `npm start`: the whole fleet in one process. */
import { enableCompileCache } from "../../deploy/local/compile-cache.mjs";

const begun = performance.now();

// Only modules that are loaded after this call are cached.
enableCompileCache();
const { runMain } = await import("../../shared/runtime/process/main.ts");
const { readConfig } = await import("../../shared/runtime/settings/config.ts");
const { quietOnTerminal, standaloneFields } = await import("./config.ts");
const { readCall } = await import("./options.ts");
const { greeting, start } = await import("./standalone.ts");

const call = readCall(process.argv.slice(2), process.env);
if (call.kind === "end") {
  (call.exitCode === 0 ? process.stdout : process.stderr).write(call.text);
  process.exit(call.exitCode);
}
Object.assign(process.env, call.settings);
await runMain({
  service: "fleet",
  stopTimeoutMs: 25_000,
  start: async (context) => {
    const config = readConfig(standaloneFields, quietOnTerminal(process.env));
    const fleet = await start({ ...context, config });
    process.stdout.write(greeting(fleet, performance.now() - begun));
    return fleet.stop;
  },
});
