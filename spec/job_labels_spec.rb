# frozen_string_literal: true

require "active_job"
require "sidekiq"
require "sidekiq/testing"
require "socket"
require_relative "support/child"
require_relative "support/command"

ActiveJob::Base.logger = Sidekiq.default_configuration.logger = Logger.new(nil)

# In Sidekiq's inline mode, which runs a job through the chain of its server's middlewares without a Redis.
RSpec.describe "labels of jobs" do
  # What the profile of the block has by job: a class name to objects
  def by_job
    collector = Memprofiler::Collector.new(interval: 1).start
    yield
    profile = collector.flush
    collector.stop
    profile.top(:alloc_objects, by: "label:job").to_h { |row| [row.name, row.flat] }
  end

  def job_class(name, base = Class.new, &body)
    stub_const(name, Class.new(base, &body))
  end

  describe Memprofiler::SidekiqMiddleware do
    around { |example| Sidekiq::Testing.inline! { example.run } }

    before { Sidekiq::Testing.server_middleware.add(described_class) }
    after { Sidekiq::Testing.server_middleware.clear }

    it "are the worker's class, and end with the job" do
      %w[ImportJob ExportJob].each do |name|
        job_class(name) do
          include Sidekiq::Job

          def perform(count) = count.times { Object.new }
        end
      end
      counts = by_job do
        ImportJob.perform_async(1000)
        ExportJob.perform_async(300)
        expect(Memprofiler.labels).to eq({})
      end
      expect(counts.fetch("ImportJob")).to be_between(1000, 1200)
      expect(counts.fetch("ExportJob")).to be_between(300, 500)
    end

    it "end with a job that fails, as it does" do
      job_class("FailingJob") do
        include Sidekiq::Job

        def perform = raise("mine: #{Memprofiler.labels}")
      end
      expect { FailingJob.perform_async }.to raise_error(RuntimeError, /mine: .*FailingJob/)
      expect(Memprofiler.labels).to eq({})
    end

    it "are the class of a job of ActiveJob's, and its result is passed on" do
      payload = { "class" => "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "wrapped" => "MailJob" }
      expect(described_class.new.call(Object.new, payload, "default") { Memprofiler.labels }).to eq(job: "MailJob")
    end
  end

  describe "in a Sidekiq of its own, with a Redis", :command do
    let(:port) { TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] } }

    before do
      installed = ENV["PATH"].split(":").any? { |folder| File.executable?("#{folder}/redis-server") }
      skip_or_fail "needs Redis (Debian: redis-server)" unless installed

      @redis = spawn("redis-server", "--port", port.to_s, "--bind", "127.0.0.1", "--save", "", chdir: @dir, out: File::NULL)
      begin
        TCPSocket.open("127.0.0.1", port).close
      rescue Errno::ECONNREFUSED
        sleep 0.02
        retry unless Process.wait(@redis, Process::WNOHANG)
      end
    end

    after do
      next unless @redis

      Process.kill(:TERM, @redis)
      Process.wait(@redis)
    end

    it "tell in a profile which class of job keeps what it makes" do
      File.write("#{@dir}/app.rb", <<~RUBY)
        require "memprofiler"
        DONE = Queue.new
        KEPT = Queue.new
        class LeakJob
          include Sidekiq::Job
          def perform(count) = DONE << count.times { KEPT << Object.new }
        end
        class CleanJob
          include Sidekiq::Job
          def perform(count) = DONE << count.times { Object.new }
        end
        Sidekiq.configure_server do |config|
          config.server_middleware { |chain| chain.add Memprofiler::SidekiqMiddleware }
          config.on(:startup) do
            5.times { [LeakJob, CleanJob].each { |job| job.perform_async(400) } }
            Thread.new { 10.times { DONE.pop } && Process.kill(:TERM, $$) }
          end
        end
      RUBY
      env = { "RUBYOPT" => [ENV["RUBYOPT"], "-r#{File.expand_path("../lib/memprofiler/auto", __dir__)}"].compact.join(" "),
              "MEMPROFILER" => "1", "MEMPROFILER_INTERVAL" => "1", "REDIS_URL" => "redis://127.0.0.1:#{port}/0" }
      log, status = Open3.capture2e(env, Command::RUBY, "-I", File.expand_path("../lib", __dir__), "-e", 'load Gem.activate_bin_path("sidekiq", "sidekiq")',
                                    "--", "-r", "./app.rb", "-c", "3", "-t", "5", chdir: @dir)
      expect(status).to be_success, log
      profile = Memprofiler::Profile.load(Dir.glob("#{@dir}/*.pb.gz").first)
      made, kept = %i[alloc_objects inuse_objects].map { |metric| profile.top(metric, by: "label:job").to_h { |row| [row.name, row.flat] } }
      expect([made["LeakJob"], made["CleanJob"], kept["LeakJob"]]).to all(be >= 2000)
      expect(kept.fetch("CleanJob", 0)).to be < 1000
    end
  end

  describe Memprofiler::ActiveJobLabels do
    def application_job
      job_class("ApplicationJob", ActiveJob::Base) do
        include Memprofiler::ActiveJobLabels

        self.queue_adapter = :inline
      end
    end

    it "are the job's class, whatever it's run by" do
      application_job
      job_class("ReportJob", ApplicationJob) { def perform(count) = count.times { Object.new } }
      counts = by_job do
        ReportJob.perform_later(1000)
        ReportJob.perform_now(500)
      end
      expect(counts.fetch("ReportJob")).to be_between(1500, 1900)
      expect(Memprofiler.labels).to eq({})
    end

    it "are one for all classes without a name" do
      application_job
      seen = nil
      Class.new(ApplicationJob) { define_method(:perform) { seen = Memprofiler.labels } }.new.perform_now
      expect(seen).to eq(job: "(anonymous)")
    end

    it "refuse a class without ActiveJob's callbacks" do
      expect { Class.new.include(described_class) }.to raise_error(TypeError, /must be included in a class of ActiveJob's/)
    end
  end
end
