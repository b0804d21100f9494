// Writes beside the bundle what its libraries are licensed under, and the digest that a test compares it with.
import { createHash } from "node:crypto"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"))
const parts = []
for (const [folder, entry] of Object.entries(lock.packages).sort()) {
  if (!folder || entry.dev || entry.optional) continue
  const file = readdirSync(folder).find((name) => /^licen[sc]e(\.(txt|md))?$/i.test(name))
  if (file === undefined) throw new Error(`${folder} has no file with its license`)
  const name = folder.replace("node_modules/", "")
  parts.push(`${name} ${entry.version} (${entry.license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`)
}
writeFileSync("../page/vendor.licenses.txt", parts.join(`\n${"-".repeat(80)}\n\n`))
const digest = createHash("sha256").update(readFileSync("../page/vendor.js")).digest("hex")
writeFileSync("vendor.sha256", `${digest}\n`)
