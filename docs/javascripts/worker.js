// Browsers start no worker for a page that is opened from the disk. The search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = Object.assign(document.createElement("iframe"), { hidden: true })
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve())
      this.load(url).then(() => {
        this.waiting.forEach(data => this.hand(data))
        this.waiting = null
      })
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script")
        Object.assign(script, { src: url, onload: done, onerror: failed })
        this.inside.document.body.append(script)
      })
    }

    hand(data) {
      this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }

    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.hand(data)
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
