# frozen_string_literal: true

require "active_job"
require "sidekiq"
require "sidekiq/testing"
require_relative "support/child"

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
