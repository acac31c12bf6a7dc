/** `npm run simulate`: runs its program with the replaced globals. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { commandOf } from "./program.ts";

const PROGRAM = new URL("./seeds.program.ts", import.meta.url);
const child = spawn(process.execPath, commandOf(PROGRAM, process.argv.slice(2)), { stdio: "inherit" });
const [code] = (await once(child, "exit")) as [number | null];
process.exitCode = code ?? 2;
